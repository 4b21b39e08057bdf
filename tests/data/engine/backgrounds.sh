#!/bin/sh
# A node in shell that answers, and leaves a background job behind that holds its stdout and its stderr.
while read -r request; do
  id=$(printf '%s' "$request" | sed 's/.*"invocationId": *"\([^"]*\)".*/\1/')
  sleep 3600 &
  printf '{"octonode":"1","type":"result","invocationId":"%s","status":"ok","outputs":{}}\n' "$id"
done
