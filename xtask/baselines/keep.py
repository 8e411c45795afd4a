"""Keeps a program alive; looks every two seconds, as the first ccmux did: keep.py PROGRAM"""
import subprocess, sys, time

while True:
    child = subprocess.Popen(sys.argv[1:])
    while child.poll() is None:
        time.sleep(2)
