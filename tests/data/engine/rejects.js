// A node in JavaScript that dies of a promise that nobody handles.
const lines = require("node:readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  Promise.reject(new Error(`no answer to ${JSON.parse(line).invocationId}`));
});
