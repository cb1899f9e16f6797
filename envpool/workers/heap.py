"""Pack the heap of the fork server, so that what a worker allocates does not copy shared pages.

After the fork server's imports, the C library's allocator has a thousand free blocks between used
ones. A forked process fills these first, and each block that it fills copies the page around it:
2 MB in each process, and a millisecond of CPU before a verdict.

Python's own allocator (blocks of up to 512 bytes) is left alone: filling its free blocks saved less
than 0.7 MB of 30.
"""

import ctypes
from typing import Any

_LARGEST, _SMALLEST = 2**16, 24  # bytes
_FINE = 1024  # bytes below which every size class is tried, 16 bytes apart
_MAX_BLOCKS = 100_000


class _MallocInfo(ctypes.Structure):  # struct mallinfo2
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def fill_free_blocks() -> int:
    """Allocate the free blocks of the C library's heap for the rest of this process; what is
    allocated next comes from the heap's end. Returns their bytes; 0 where the C library does not
    say what is free (mallinfo2: glibc from 2.33 on)."""
    library: Any = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return 0
    library.mallinfo2.restype = _MallocInfo
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    free = _inner_free(library)
    size, num_blocks = _LARGEST, 0
    while size >= _SMALLEST and num_blocks < _MAX_BLOCKS:
        end = library.mallinfo2().keepcost
        library.malloc(size)
        num_blocks += 1
        if library.mallinfo2().keepcost != end:  # no free block was as large: it came from the end
            size = size * 3 // 4 if size > _FINE else size - 16
    return free - _inner_free(library)


def _inner_free(library: Any) -> int:
    """Free bytes before the heap's end."""
    info = library.mallinfo2()
    return int(info.fordblks - info.keepcost)
