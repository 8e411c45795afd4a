#!/bin/bash
# Sessions watched as the first design did: every second it looks at each one's state with jq: watch.sh DIRECTORY SECONDS
# A state file holds {"session": NAME, "since": UNIX_SECONDS}; whoever has waited for SECONDS is told once.
declare -A told
while true; do
  for file in "$1"/*.json; do
    session=$(jq -r .session "$file")
    since=$(jq -r .since "$file")
    if [ -z "${told[$session]}" ] && [ $(($(date +%s) - since)) -ge "$2" ]; then
      told[$session]=1
      echo "$session"
    fi
  done
  sleep 1
done
