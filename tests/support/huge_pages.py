"""What the kernel does with huge pages here, and how much memory of a process is in them."""

import subprocess
import sys
from functools import cache
from pathlib import Path

_PROGRAM = """
from rehearsal_room.envpool.kernel.huge_pages import HugePages
pages = HugePages()
objects = [(number, str(number)) for number in range(100_000)]
block = bytes(range(256)) * 100_000
num_bytes = pages.collapse()
same = objects == [(number, str(number)) for number in range(100_000)]
print(num_bytes, same and block == bytes(range(256)) * 100_000, pages.collapse() >= num_bytes)
"""


@cache
def collapsed() -> tuple[int, str]:
    """How many bytes a process of some objects puts into huge pages (0: the kernel does not allow
    it), and whether the objects stay, and a second time does as much."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )
    num_bytes, *words = done.stdout.split()
    return int(num_bytes), " ".join(words)


def huge_kb(pid: int) -> int:
    """The memory of a process that is in huge pages, in KiB. Raises PermissionError where another
    user's, or a worker's, is asked for by an ordinary user."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages:"))
