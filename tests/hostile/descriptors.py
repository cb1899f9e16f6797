"""Descriptors that reach other processes. See tests/hostile/gather.py.

The audit hook sees none of these calls: the kernel's filter refuses them.
"""


def send_to_a_path():
    """failed"""
    import socket

    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    pair[0].sendto(b"a forged line", "/dev/log")


def send_messages_to_a_path():
    """failed"""
    import _socket

    pair = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    pair[0].sendmsg([b"a forged line"], [], 0, "/run/systemd/notify")


def signal_by_a_pipe():
    """failed"""
    import fcntl
    import os

    read, write = os.pipe()
    fcntl.fcntl(read, 8, os.getppid())  # F_SETOWN: who is signalled
    fcntl.fcntl(read, 10, 9)  # F_SETSIG: SIGKILL
    fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)
    os.write(write, b"x")


def signal_a_group_by_a_pipe():
    """failed"""
    import fcntl
    import os
    import struct

    read, write = os.pipe()
    fcntl.fcntl(read, 15, struct.pack("ii", 2, os.getpgrp()))  # F_SETOWN_EX: a group
    fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)
    os.write(write, b"x")


def signal_by_ioctl():
    """failed"""
    import fcntl
    import os
    import socket
    import struct

    pair = socket.socketpair()
    fcntl.ioctl(pair[0], 0x8901, struct.pack("i", os.getppid()))  # FIOSETOWN
    fcntl.ioctl(pair[0], 0x5452, struct.pack("i", 1))  # FIOASYNC
    pair[1].send(b"x")


def hold_up_other_programs():
    """failed"""
    import fcntl
    import os

    fcntl.fcntl(os.open("notes.txt", os.O_CREAT | os.O_RDONLY), 1024, fcntl.F_RDLCK)  # F_SETLEASE


def lock_a_library():
    """failed"""
    import fcntl
    import os

    fcntl.flock(os.open("notes.txt", os.O_CREAT | os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)


def ask_who_is_at_the_other_end():
    """failed"""
    import socket

    socket.socketpair()[0].getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)


def ask_about_the_parent():
    """failed"""
    import os

    return os.sched_getaffinity(os.getppid())
