#!/bin/bash
# Waits for the doorbell, then prints the notes and takes them: listen.sh DIRECTORY
echo $$ > "$1/listener.pid"
read -r < "$1/bell"
(flock 9; cat "$1/queue.jsonl"; : > "$1/queue.jsonl") 9> "$1/lock"
rm "$1/listener.pid"
