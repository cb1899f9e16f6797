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
_MOST = 0.9  # of the seconds that a block may use after the first signal: signals come in between


class TookTooLong(KeyboardInterrupt):
    """The block of `stopped_after` took too long. Like Ctrl-C, it is nothing that code may handle
    as an error of its own."""


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """A block that is stopped by TookTooLong where it is not done after some seconds and then uses
    about as many of CPU time, or is not done after five times as many by the clock: a machine that
    stands still does not count against the block. It takes 6 µs of CPU.

    In another thread than the main one nothing is stopped: Python handles signals in that one only
    (there, verifiers run in processes: judge.code.kept_processes).
    The signal comes again and again until the block ends, for code that swallows the exception. A
    timer and a handler of somebody else (a test's time limit) are put back afterwards. If no
    handler was installed, the one of this module stays, because installing it is the slowest part;
    between blocks it ends the process, as the signal does by default. Not covered: a single call
    into C that lets no signal in, such as a power of a million digits.
    """
    if threading.get_ident() != threading.main_thread().ident:
        yield
        return
    block = _Block(seconds)
    _blocks.append(block)
    old_handler = signal.getsignal(signal.SIGALRM)
    if old_handler is not _stop:
        signal.signal(signal.SIGALRM, _stop)
    old_seconds, old_interval = signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        block.is_over = True
        left = max(old_seconds - (time.monotonic() - block.began), 1e-3) if old_seconds else 0.0
        signal.setitimer(signal.ITIMER_REAL, left, old_interval)
        if old_handler not in (_stop, signal.SIG_DFL, None):
            signal.signal(signal.SIGALRM, old_handler)
        elif len(_blocks) == 1 and time.monotonic() - block.began >= seconds:
            # A signal of this timer may still be on its way.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        _blocks.remove(block)


class _Block:
    __slots__ = ("began", "is_over", "seconds", "used")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began = time.monotonic()
        # CPU time at the first signal. To ask for it now would let other processes run first,
        # which on a busy machine takes longer than a verdict.
        self.used: float | None = None
        self.is_over = False


_blocks: list[_Block] = []  # that are running, the innermost last


def _stop(number: int, frame: FrameType | None) -> None:
    if not _blocks:  # it is somebody else's
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGALRM)
        return
    block = _blocks[-1]
    passed, used = time.monotonic() - block.began, time.thread_time()
    if block.used is None:
        block.used = used
    is_due = passed >= 5 * block.seconds or used - block.used >= _MOST * block.seconds
    waits = _is_clearing_away(frame) and passed < _GRACE * block.seconds
    if is_due and not block.is_over and not waits:
        raise TookTooLong


def _is_clearing_away(frame: FrameType | None) -> bool:
    """Whether the interpreter clears a dead object away. An exception there is lost and printed,
    and may leave a dictionary of somebody else half changed; the next signal comes soon."""
    while frame is not None:  # of `__del__` itself, or of what it calls
        if frame.f_code.co_name == "__del__" or frame.f_code.co_filename == weakref.__file__:
            return True
        frame = frame.f_back
    return False
