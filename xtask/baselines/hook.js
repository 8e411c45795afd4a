// Hands a hook's input to control.sock and reads the answer: what ccmux-hook does.
const net = require("net"), fs = require("fs");
const payload = JSON.parse(fs.readFileSync(0, "utf8"));
const frame = { v: 1, type: "hook", event: payload.hook_event_name, token: process.env.CCMUX_SESSION_TOKEN, payload };
const daemon = net.connect(process.env.CCMUX_RUNTIME_DIR + "/control.sock", () => daemon.write(JSON.stringify(frame) + "\n"));
daemon.on("data", (answer) => { JSON.parse(answer); daemon.destroy(); });
