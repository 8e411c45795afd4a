#!/bin/bash
# In a container that no socket of the daemon reaches (ccmux run --tcp): a hook of Claude's becomes three lines.
# tell.sh EVENT MESSAGE; whatever happens, Claude goes on.
said() {
  if [ -r /run/ccmux/token ]; then printf 'token %s\n' "$(head -n 1 /run/ccmux/token)"; fi
  printf '%s\n%s\n%s\n' "$1" "$WINDOWID" "$2"
}
lines=$(said "$1" "$2")
export lines
timeout 3 bash -c 'exec 3<> "/dev/tcp/${CCMUX_TCP%:*}/${CCMUX_TCP##*:}" && printf "%s\n" "$lines" >&3 && head -c 200 <&3' > /dev/null 2>&1 < /dev/null
exit 0
