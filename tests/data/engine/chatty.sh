#!/bin/sh
# A node in shell that greets on stdout before it answers.
read -r request
echo "Loading the model..."
id=$(printf '%s' "$request" | sed 's/.*"invocationId": *"\([^"]*\)".*/\1/')
printf '{"octonode":"1","type":"result","invocationId":"%s","status":"ok","outputs":{}}\n' "$id"
