"""The rules of Landlock for a worker's files, prepared once for many processes.

Which paths a worker may read is the same for all workers: the fork server opens these paths and
looks up the library's functions, and a worker only makes the system calls.
"""

import ctypes
import fcntl
import os
from collections.abc import Iterable
from typing import Any

_RULE_PATH_BENEATH = 1
_LEAST_DESCRIPTOR = 32  # a worker puts its own descriptors below


class FileRules:
    """Allow reading the readable paths, reading and writing the devices and a scratch folder, and
    nothing else, as Landlock was in this version (ABI) of its interface.

    The library `landlock` supports files only. From ABI 4 the rule set has TCP ports and from ABI 6
    abstract sockets and signals, so the struct is extended here; and the library takes an old errno
    for a new one, so errno is reset before each call.

    It holds a descriptor of each path until `restrict`, in each process that is forked meanwhile.
    Raises OSError for a path that does not exist.
    """

    def __init__(
        self, landlock: Any, abi: int, *, readable: Iterable[str], devices: Iterable[str]
    ) -> None:
        rights = landlock.FSAccess
        since = {rights.REFER: 2, rights.TRUNCATE: 3, rights.IOCTL_DEV: 5}
        everything = sum(int(right) for right in rights if since.get(right, 1) <= abi)
        never = rights.EXECUTE | rights.MAKE_SOCK | rights.MAKE_CHAR | rights.MAKE_BLOCK
        self._create = landlock.get_create_ruleset()
        self._add_rule = landlock.get_add_rule()
        self._restrict_self = landlock.get_restrict_self()
        self._beneath = landlock.PathBeneathAttr
        self._write = everything & ~int(never)

        class Attributes(landlock.RulesetAttr):  # type: ignore[misc]
            _fields_ = [("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]  # noqa: RUF012

        self._attributes = Attributes(everything, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
        self._size = 24 if abi >= 6 else 16 if abi >= 4 else 8
        of_files = rights.READ_FILE | rights.WRITE_FILE | rights.TRUNCATE | rights.IOCTL_DEV
        read, use = rights.READ_FILE | rights.READ_DIR, rights.READ_FILE | rights.WRITE_FILE
        allowed = [*((path, read) for path in readable), *((path, use) for path in devices)]
        self.descriptors: list[int] = []
        self._rules = []
        for path, access in allowed:
            descriptor = _opened(path)
            self.descriptors.append(descriptor)
            access &= access if os.path.isdir(path) else of_files
            self._rules.append(ctypes.byref(self._beneath(int(access), descriptor)))

    def restrict(self, scratch: str) -> None:
        """Restrict this process, which has no new privileges, and close the descriptors. Raises
        OSError."""
        ruleset = create_ruleset(self._create, ctypes.byref(self._attributes), self._size)
        for rule in self._rules:
            self._add(ruleset, rule)
        folder = os.open(scratch, os.O_PATH | os.O_CLOEXEC)
        self._add(ruleset, ctypes.byref(self._beneath(self._write, folder)))
        ctypes.set_errno(0)
        self._restrict_self(ruleset, 0)
        for descriptor in (ruleset, folder, *self.descriptors):
            os.close(descriptor)

    def _add(self, ruleset: int, rule: Any) -> None:
        ctypes.set_errno(0)
        self._add_rule(ruleset, _RULE_PATH_BENEATH, rule, 0)


def _opened(path: str) -> int:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LEAST_DESCRIPTOR)
    finally:
        os.close(descriptor)


def version(landlock: Any) -> int:
    """The version of this kernel's Landlock. Raises OSError where it has none."""
    return create_ruleset(landlock.get_create_ruleset(), None, 0, landlock.CREATE_RULESET_VERSION)


def create_ruleset(create: Any, attributes: Any, size: int, flags: int = 0) -> int:
    """A descriptor of a new rule set, or with flags what they ask. Raises OSError."""
    ctypes.set_errno(0)
    ruleset: int = create(attributes, size, flags)
    return ruleset
