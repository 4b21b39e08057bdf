// A node in JavaScript that answers, and that a timer keeps alive after the end of its stdin.
const lines = require("node:readline").createInterface({ input: process.stdin });
setInterval(() => {}, 3_600_000);
lines.on("line", (line) => {
  const request = JSON.parse(line);
  const answer = { octonode: "1", type: "result", invocationId: request.invocationId, status: "ok" };
  process.stdout.write(JSON.stringify({ ...answer, outputs: request.inputs }) + "\n");
});
