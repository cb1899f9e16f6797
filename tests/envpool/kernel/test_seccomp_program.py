"""The filter is built once, and each process loads the program with its own id."""

import os

import pytest

from rehearsal_room.envpool.kernel.seccomp_program import SeccompProgram, exported
from rehearsal_room.envpool.workers.confine import WHY_NO_SECCOMP, seccomp

pytestmark = pytest.mark.skipif(bool(WHY_NO_SECCOMP), reason=WHY_NO_SECCOMP or "available")


@pytest.mark.parametrize("pid", [1, 2, 4711, 2**22 - 1])
def test_the_program_is_the_one_of_the_process(pid: int) -> None:
    """With a process's id in its place, it is what the library builds for that process."""
    program = SeccompProgram(seccomp)
    assert program.text(os.getpid()) == exported(seccomp, os.getpid())
    assert program.text(pid) == exported(seccomp, pid)
    assert exported(seccomp, pid) != exported(seccomp, pid + 1)  # so the comparison says something
