"""A Stop hook as the first ccmux had it: reads the whole transcript for the last turn and hands it over."""
import json, os, socket, sys

payload = json.load(sys.stdin)
with open(payload["transcript_path"], encoding="utf-8") as transcript:
    lines = [json.loads(line) for line in transcript]
blocks = []
for line in reversed(lines):
    content = line.get("message", {}).get("content")
    if line.get("type") == "user" and isinstance(content, str):
        break
    if line.get("type") == "assistant" and not line.get("isSidechain"):
        blocks = content + blocks
frame = {"v": 1, "type": "broadcast", "session": payload["session_id"], "turn": blocks}
daemon = socket.socket(socket.AF_UNIX)
daemon.connect(os.environ["CCMUX_RUNTIME_DIR"] + "/control.sock")
daemon.sendall(json.dumps(frame).encode() + b"\n")
json.loads(daemon.makefile().readline())
