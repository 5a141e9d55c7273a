"""Mounts as a container runtime does, and becomes a program that serves the connection.

hand_over.py MOUNTPOINT TYPE SOURCE OPTIONS PROGRAM...: `{}` in the program's arguments becomes the number of the
descriptor. TYPE may be `none`: then nothing is mounted. Used by `descriptor.rs`.
"""

import ctypes
import os
import sys

MS_NOSUID, MS_NODEV = 2, 4

mountpoint, kind, source, options, *program = sys.argv[1:]
descriptor = os.open("/dev/fuse", os.O_RDWR)
os.set_inheritable(descriptor, True)
if kind != "none":
    libc = ctypes.CDLL(None, use_errno=True)
    data = f"fd={descriptor},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},{options}"
    texts = [text.encode() for text in (source, mountpoint, kind, data)]
    if libc.mount(*texts[:3], MS_NOSUID | MS_NODEV, texts[3]) != 0:
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
arguments = [argument.replace("{}", str(descriptor)) for argument in program]
os.execv(arguments[0], arguments)
