"""Put the heap of this process into huge pages (2 MiB instead of 4 KiB).

Python's objects lie all over the heap, so a hot Python process misses the processor's TLB all the
time, and in a virtual machine each miss walks two page tables. In huge pages the same calls take 2
to 14 % less time (docs/performance.md). `madvise` with MADV_COLLAPSE (Linux 6.1) copies pages of
4 KiB that exist into huge ones, at once: 50 MiB take 50 to 90 ms. So it pays for processes that
stay hot for a second, and only for those: pages that were shared since a fork become the process's
own.

The kernel does this where huge pages are allowed for memory that asks for them
(/sys/kernel/mm/transparent_hugepage/enabled is `always` or `madvise`); elsewhere nothing happens.

Example: HugePages().collapse() -> 54525952, the bytes that are in huge pages now
"""

import ctypes
import sys
from collections.abc import Iterator
from typing import Any

_SIZE = 2**21  # bytes of a huge page on x86-64, and on ARM with pages of 4 KiB
_COLLAPSE = 25  # MADV_COLLAPSE
_AROUND = 2**29  # bytes on both sides of an object that are searched for more of the heap


class HugePages:
    """Make it before a sandbox forbids to look up functions of the C library; then `collapse`."""

    __slots__ = ("_madvise", "_sbrk")

    def __init__(self) -> None:
        self._madvise: Any = None
        if sys.platform != "linux":
            return
        library: Any = ctypes.CDLL(None)
        self._sbrk, self._madvise = library.sbrk, library.madvise
        self._sbrk.restype, self._sbrk.argtypes = ctypes.c_void_p, (ctypes.c_ssize_t,)
        self._madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def collapse(self) -> int:
        """Put the heap into huge pages, as it is now; returns the bytes that are in them.

        The kernel refuses blocks without memory, so none has to be known: the blocks around an
        object of Python's and below the end of malloc's heap are tried. /proc, which would name
        them, is not there in a sandbox.
        """
        if self._madvise is None:
            return 0
        madvise = self._madvise
        num_huge: int = sum(madvise(block, _SIZE, _COLLAPSE) == 0 for block in self._blocks())
        return _SIZE * num_huge

    def _blocks(self) -> Iterator[int]:
        arena = id(self) // _SIZE * _SIZE
        yield from range(max(arena - _AROUND, _SIZE), arena + _AROUND, _SIZE)
        end = (self._sbrk(0) or 0) // _SIZE * _SIZE
        yield from range(max(end - _AROUND, _SIZE), end, _SIZE)
