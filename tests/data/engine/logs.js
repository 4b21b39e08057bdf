// A node in JavaScript that logs to stdout, as console.log does, before it answers.
const lines = require("node:readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const request = JSON.parse(line);
  console.log("got", request.type);
  const answer = { octonode: "1", type: "result", invocationId: request.invocationId, status: "ok" };
  console.log(JSON.stringify({ ...answer, outputs: request.inputs }));
});
