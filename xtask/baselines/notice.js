// Sends a notice in three lines: notice.js HOST PORT MESSAGE
const [host, port, message] = process.argv.slice(2);
const socket = require("net").connect(Number(port), host, () => socket.end(`complete\n1\n${message}\n`));
socket.resume();
