"""Packing the heap of the fork server."""

import subprocess
import sys

_PROGRAM = """
import ctypes
from rehearsal_room.envpool.workers.heap import _inner_free, _MallocInfo, fill_free_blocks
library = ctypes.CDLL(None)
if not hasattr(library, "mallinfo2"):
    print("no mallinfo2", fill_free_blocks())
    raise SystemExit
library.mallinfo2.restype = _MallocInfo
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
library.free.argtypes = (ctypes.c_void_p,)
blocks = [library.malloc(2000) for _ in range(400)]
for block in blocks[::2]:
    library.free(block)
before = _inner_free(library)
print(before > 350_000, fill_free_blocks() > 0.9 * before, _inner_free(library) < 0.05 * before)
"""


def test_free_blocks_are_filled() -> None:
    """What was free between used blocks is no longer used for what is allocated next."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() in (["True", "True", "True"], ["no", "mallinfo2", "0"])
