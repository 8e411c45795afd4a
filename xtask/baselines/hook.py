"""Hands a hook's input to control.sock and reads the answer: what ccmux-hook does."""
import json, os, socket, sys

payload = json.load(sys.stdin)
frame = {"v": 1, "type": "hook", "event": payload.get("hook_event_name", ""), "token": os.environ.get("CCMUX_SESSION_TOKEN"), "payload": payload}
daemon = socket.socket(socket.AF_UNIX)
daemon.connect(os.environ["CCMUX_RUNTIME_DIR"] + "/control.sock")
daemon.sendall(json.dumps(frame).encode() + b"\n")
json.loads(daemon.makefile().readline())
