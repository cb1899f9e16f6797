"""Stop code of this process that takes too long, a regular expression that backtracks included.

A thread cannot stop another one that holds the interpreter's lock, and a regular expression holds
it; but both the interpreter and the engine of regular expressions let signals in. So the kernel's
timer sends one, and its handler raises.
"""

import signal
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_GRACE = 20  # times the seconds of a block, for a `__del__` that may take long


class TookTooLong(KeyboardInterrupt):
    """The block of `stopped_after` took too long. Like Ctrl-C, it is nothing that code may handle
    as an error of its own."""


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """A block that is stopped by TookTooLong after some seconds of its CPU time, or five times as
    many by the clock: a machine that stands still does not count against the block. It takes 19 µs
    of CPU.

    In another thread than the main one nothing is stopped: Python handles signals in that one only
    (there, verifiers run in processes: judge.code.kept_processes).
    The signal comes again and again until the block ends, for code that swallows the exception. A
    timer and a handler of somebody else (a test's time limit) are put back afterwards. Not covered:
    a single call into C that lets no signal in, such as a power of a million digits.
    """
    if threading.get_ident() != threading.main_thread().ident:
        yield
        return
    is_inside = True

    def stop(number: int, frame: FrameType | None) -> None:
        passed = time.monotonic() - began
        is_due = passed >= 5 * seconds or time.thread_time() - used >= seconds
        waits = _is_clearing_away(frame) and passed < _GRACE * seconds
        if is_inside and is_due and not waits:
            raise TookTooLong

    began, used = time.monotonic(), time.thread_time()
    old_handler = signal.signal(signal.SIGALRM, stop)
    old_seconds, old_interval = signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        is_inside = False
        left = max(old_seconds - (time.monotonic() - began), 1e-3) if old_seconds else 0.0
        signal.setitimer(signal.ITIMER_REAL, left, old_interval)
        signal.signal(signal.SIGALRM, old_handler or signal.SIG_DFL)


def _is_clearing_away(frame: FrameType | None) -> bool:
    """Whether the interpreter clears a dead object away. An exception there is lost and printed,
    and may leave a dictionary of somebody else half changed; the next signal comes soon."""
    while frame is not None:  # of `__del__` itself, or of what it calls
        if frame.f_code.co_name == "__del__" or frame.f_code.co_filename == weakref.__file__:
            return True
        frame = frame.f_back
    return False
