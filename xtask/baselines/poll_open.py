"""Opens every FIFO of a directory; looks every two seconds, as the first ccmux did: poll_open.py DIRECTORY"""
import os, sys, time

os.chdir(sys.argv[1])
known = set()
print("ready", flush=True)
while True:
    for name in os.listdir("."):
        if name not in known:
            known.add(name)
            os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    time.sleep(2)
