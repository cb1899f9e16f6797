"""The seccomp filter as a program for the kernel, built once and loaded by many processes.

Building the filter takes 5 ms of CPU and 5 MB of memory in the process that does it; loading the
program takes a tenth of that. The fork server builds it, and each worker loads it.

The filter allows some calls for the own process only, so the program contains its id. It is built
for an id that no process has, and each process writes its own id there: the programs of two
processes differ in nothing else (a test compares them).
"""

import ctypes
import os
import struct
from typing import Any

from rehearsal_room.envpool.kernel.system_calls import filter_of

_NO_PROCESS = 0x3FEDCBA9  # ids of processes are below 2**22
_INSTRUCTION = struct.Struct("=HBBI")  # struct sock_filter: code, two jumps, a constant
_CONSTANT_AT = 4  # in an instruction
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_libc = ctypes.CDLL(None, use_errno=True)


class _SockFprog(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class SeccompProgram:
    """The filter of envpool.kernel.system_calls, made with the library `pyseccomp`."""

    def __init__(self, seccomp: Any) -> None:
        program = exported(seccomp, _NO_PROCESS)
        self._own = [
            at + _CONSTANT_AT
            for at in range(0, len(program), _INSTRUCTION.size)
            if _INSTRUCTION.unpack_from(program, at)[3] == _NO_PROCESS
        ]
        self._program = ctypes.create_string_buffer(program, len(program))
        length = len(program) // _INSTRUCTION.size
        self._argument = _SockFprog(length, ctypes.addressof(self._program))

    def __repr__(self) -> str:
        return f"<SeccompProgram [{self._argument.length} instructions]>"

    def text(self, pid: int) -> bytes:
        """The program for a process."""
        for at in self._own:
            struct.pack_into("=I", self._program, at, pid)
        return self._program.raw

    def load(self) -> None:
        """Filter this process from now on; it has no new privileges. Raises OSError."""
        for at in self._own:
            struct.pack_into("=I", self._program, at, os.getpid())
        argument = ctypes.byref(self._argument)
        if _libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, argument, 0, 0) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"seccomp: {os.strerror(code)}")


def exported(seccomp: Any, pid: int) -> bytes:
    """The program that the library builds for a process."""
    with open(os.memfd_create("filter"), "w+b") as file:
        filter_of(seccomp, pid).export_bpf(file)
        file.seek(0)
        return file.read()
