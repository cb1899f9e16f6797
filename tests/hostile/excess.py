"""Excessive use of what is allowed. See tests/hostile/gather.py."""


def loop_forever():
    """ended: longer than"""
    while True:
        pass


def loop_and_ignore_everything():
    """ended: longer than"""
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


def loop_in_a_regular_expression():
    """ended: longer than"""
    import re

    return bool(re.match(r"(a+)+$", "a" * 60 + "b"))


def count_very_far():
    """ended: longer than"""
    return len(str(7 ** (10**8)))


def wait_forever():
    """ended: longer than"""
    import threading

    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def wait_in_the_kernel():
    """ended: longer than"""
    import os

    read, _write = os.pipe()
    return os.read(read, 1)


def sleep_for_a_year():
    """answered: slept"""
    import time

    time.sleep(365 * 86400)
    return "slept"


def take_all_memory():
    """ended: MiB of memory"""
    blocks = []
    while True:
        blocks.append(bytearray(2**24))


def take_impossibly_much():
    """failed"""
    return len(bytearray(2**40))


def recurse_forever():
    """failed"""

    def deeper(n):
        return deeper(n + 1)

    return deeper(0)


def recurse_in_c():
    """failed or ended"""
    import sys

    sys.setrecursionlimit(10**8)
    nested = []
    for _ in range(10**6):
        nested = [nested]
    return repr(nested)


def return_very_much():
    """ended: characters; the limit is 16,777,216 or failed"""
    return "x" * 17_000_000


def start_many_threads():
    """ended: thread"""
    import threading

    while True:
        threading.Thread(target=threading.Event().wait, daemon=True).start()


def leave_a_thread():
    """ended: thread"""
    import threading

    def loop():
        while True:
            pass

    threading.Thread(target=loop, daemon=True).start()
    return "started"


def leave_a_bare_thread():
    """ended: thread"""
    import _thread

    lock = _thread.allocate_lock()
    lock.acquire()
    _thread.start_new_thread(lock.acquire, ())
    return "started"


def raise_the_limits():
    """ended: the code tried to change its limits"""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
