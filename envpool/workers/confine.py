"""How a worker applies the sandbox to itself, after its fork and before any hosted code.

envpool.workers.sandbox states what the sandbox guarantees; this module implements it. The order
matters: scratch folder and limits first, then privileges, then Landlock, and seccomp last, because
it takes away the system calls that the others need.
"""

import contextlib
import ctypes
import ctypes.util
import errno
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from envpool.workers.sandbox import (
    DEVICES,
    LIBRARIES_MB,
    LOWEST,
    MAX_DESCRIPTORS,
    MAX_FILE,
    Limits,
    readable,
)

_SONAMES = {"c": "libc.so.6", "seccomp": "libseccomp.so.2"}


@contextlib.contextmanager
def _known_sonames() -> Iterator[None]:
    """Replace `find_library`: it asks ldconfig and gcc, which do not exist inside bubblewrap."""
    find = ctypes.util.find_library
    setattr(ctypes.util, "find_library", _SONAMES.get)  # noqa: B010 - for mypy
    try:
        yield
    finally:
        setattr(ctypes.util, "find_library", find)  # noqa: B010


seccomp: Any = None
landlock: Any = None
with _known_sonames():
    try:
        import pyseccomp as seccomp  # type: ignore[import-untyped, no-redef]
    except (ImportError, RuntimeError, OSError, AttributeError) as exc:
        WHY_NO_SECCOMP = f"seccomp: {exc}"
    else:
        WHY_NO_SECCOMP = ""
try:
    from landlock import plumbing as landlock  # type: ignore[import-untyped, no-redef]
except ImportError as exc:
    WHY_NO_LANDLOCK = f"landlock: {exc}"
else:
    WHY_NO_LANDLOCK = ""

# System calls -----------------------------------------------------------------------------------

# What Python, SQLite and threads need. Landlock and the mounts restrict the files among them.
_ALLOWED = """
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range
    open openat creat stat lstat fstat newfstatat statx access faccessat faccessat2 readlink
    readlinkat getdents getdents64 getcwd chdir fchdir statfs fstatfs
    mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat
    truncate ftruncate fallocate fsync fdatasync sync_file_range umask flock copy_file_range
    sendfile fadvise64
    dup dup2 dup3 fcntl pipe pipe2 eventfd2 poll ppoll select pselect6
    epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
    mmap munmap mprotect mremap madvise msync mincore brk membarrier
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack
    pause restart_syscall futex futex_waitv set_robust_list get_robust_list rseq set_tid_address
    arch_prctl sched_yield sched_getaffinity sched_getparam sched_getscheduler getpriority
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrusage
    getrandom getpid gettid getppid getuid geteuid getgid getegid getgroups getresuid getresgid
    getpgid getpgrp getsid uname sysinfo getcpu getrlimit wait4 waitid exit exit_group
    recvfrom recvmsg sendto sendmsg shutdown getsockopt setsockopt getsockname getpeername
"""
# What libraries try innocently: it fails as it does without permission.
_REFUSED = """
    socket connect bind listen accept accept4 fork vfork execve execveat tkill
    rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_getfd pidfd_send_signal alarm setitimer
    timer_create timerfd_create setpriority sched_setaffinity sched_setscheduler sched_setparam
    setrlimit chown fchown lchown fchownat setxattr lsetxattr fsetxattr mknod mknodat
    setuid setgid setreuid setregid setresuid setresgid setgroups setsid setpgid capset
    shmget semget msgget mq_open memfd_create memfd_secret inotify_init inotify_init1 personality
    mlock mlock2 mlockall ioprio_set sethostname setdomainname name_to_handle_at
"""
# What copying a file also does and Landlock does not restrict: it does nothing, silently.
_IGNORED = """
    chmod fchmod fchmodat fchmodat2 utime utimes utimensat futimesat
"""
# What no library tries innocently: it ends the process.
_DEADLY = """
    ptrace process_vm_readv process_vm_writev kcmp process_madvise unshare setns chroot pivot_root
    mount umount2 fsopen fsmount fsconfig fspick move_mount open_tree mount_setattr
    bpf keyctl add_key request_key perf_event_open io_uring_setup io_uring_enter io_uring_register
    userfaultfd init_module finit_module delete_module kexec_load kexec_file_load reboot swapon
    swapoff acct quotactl open_by_handle_at iopl ioperm modify_ldt fanotify_init lookup_dcookie
    settimeofday clock_settime clock_adjtime adjtimex syslog vhangup nfsservctl
    landlock_create_ruleset seccomp
"""
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, size, FION*, FIO(N)CLEX
_CLONE_THREAD = 0x10000
_PRCTLS = (15, 16, 0x53564D41)  # the thread's name, names of mappings
_AF_UNIX = 1


def _filter(pid: int) -> Any:
    """The seccomp filter of the process `pid`. Other calls fail as `not implemented`."""
    syscalls = seccomp.SyscallFilter(defaction=seccomp.ERRNO(errno.ENOSYS))
    refuse = seccomp.ERRNO(errno.EPERM)

    def rule(action: int, name: str, *conditions: Any) -> None:
        with contextlib.suppress(OSError, ValueError):  # this processor or library has no such call
            syscalls.add_rule(action, name, *conditions)

    def equals(position: int, value: int) -> Any:
        return seccomp.Arg(position, seccomp.EQ, value)

    def allow_with(name: str, position: int, *values: int) -> None:
        """Allow a call with these values of one argument."""
        for value in values:
            rule(seccomp.ALLOW, name, equals(position, value))

    for names, action in (
        (_ALLOWED, seccomp.ALLOW),
        (_REFUSED, refuse),
        (_IGNORED, seccomp.ERRNO(0)),
        (_DEADLY, seccomp.KILL_PROCESS),
    ):
        for name in names.split():
            rule(action, name)
    for name in ("kill", "tgkill"):
        allow_with(name, 0, pid)
        rule(refuse, name, seccomp.Arg(0, seccomp.NE, pid))
    rule(seccomp.ALLOW, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, _CLONE_THREAD))
    rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, 0))
    allow_with("ioctl", 1, *_IOCTLS)
    allow_with("prctl", 0, *_PRCTLS)
    allow_with("socketpair", 0, _AF_UNIX)
    allow_with("prlimit64", 2, 0)  # asking, not setting
    return syscalls


# Files ------------------------------------------------------------------------------------------


def _restrict_files(scratch: str) -> None:
    """Landlock: allow reading the readable paths and writing the scratch folder, nothing else.

    The library supports files only. From ABI 4 the rule set has TCP ports and from ABI 6 abstract
    sockets and signals, so the struct is extended here; and the library takes an old errno for a
    new one, so errno is reset before each call.
    """
    access = landlock.FSAccess
    abi = _ruleset(None, 0, landlock.CREATE_RULESET_VERSION)

    class Attributes(landlock.RulesetAttr):  # type: ignore[misc]
        _fields_ = [("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]  # noqa: RUF012

    everything = access.all()
    attributes = Attributes(int(everything), 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    rules = _ruleset(ctypes.byref(attributes), size, 0)
    read = access.READ_FILE | access.READ_DIR
    write = everything & ~(access.EXECUTE | access.MAKE_SOCK | access.MAKE_CHAR | access.MAKE_BLOCK)
    for path in readable():
        _allow(rules, path, read)
    for path in DEVICES:
        _allow(rules, path, access.READ_FILE | access.WRITE_FILE)
    _allow(rules, scratch, write)
    ctypes.set_errno(0)
    landlock.get_restrict_self()(rules, 0)
    os.close(rules)


def _ruleset(attributes: Any, size: int, flags: int) -> int:
    ctypes.set_errno(0)
    ruleset: int = landlock.get_create_ruleset()(attributes, size, flags)
    return ruleset


def _allow(rules: int, path: str, access: Any) -> None:
    if not os.path.isdir(path):
        access &= landlock.FSAccess.all_file()
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        beneath = landlock.PathBeneathAttr(int(access), descriptor)
        ctypes.set_errno(0)
        landlock.get_add_rule()(rules, 1, ctypes.byref(beneath), 0)
    finally:
        os.close(descriptor)


# The process ------------------------------------------------------------------------------------

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_CAPABILITY_VERSION_3 = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread of the parent that forked it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)
    if os.getppid() != parent:  # it ended before this call
        os._exit(1)


def _drop_privileges() -> None:
    """Drop all capabilities, prevent new ones, and hide this process's memory from siblings."""
    for capability in range(64):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _libc.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _limit(limits: Limits, alone: bool) -> None:
    memory = (LIBRARIES_MB + limits.memory_mb) * 2**20
    ceilings = {
        resource.RLIMIT_AS: (memory, memory),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_CPU: (limits.cpu_seconds, limits.cpu_seconds + 1),
        resource.RLIMIT_FSIZE: (MAX_FILE, MAX_FILE),
        resource.RLIMIT_MEMLOCK: (0, 0),
        resource.RLIMIT_MSGQUEUE: (0, 0),
        resource.RLIMIT_NOFILE: (MAX_DESCRIPTORS, MAX_DESCRIPTORS),
    }
    if alone:  # it counts all processes of the user, so it is not used where seccomp works
        ceilings[resource.RLIMIT_NPROC] = (0, 0)
    for kind, (soft, hard) in ceilings.items():
        _, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))


def available_layers(required: str) -> tuple[str, list[str]]:
    """The sandbox layers that this process's children can apply, joined by "+" ("": none), and why
    the others are not available."""
    if required == "off":
        return "", []
    reasons = {"seccomp": WHY_NO_SECCOMP, "landlock": WHY_NO_LANDLOCK or _why_no_landlock()}
    layers = [layer for layer, reason in reasons.items() if not reason]
    return "+".join(layers), [reason for reason in reasons.values() if reason]


def _why_no_landlock() -> str:
    try:
        _ruleset(None, 0, landlock.CREATE_RULESET_VERSION)
    except OSError as exc:
        return f"landlock: {os.strerror(exc.errno) if exc.errno else exc}"
    return ""


def confine(level: str, scratch: str, limits: Limits) -> None:
    """Apply the layers of a level to this process. Raises OSError where one fails."""
    layers: Sequence[str] = level.split("+")
    _limit(limits, alone=level == LOWEST)
    _drop_privileges()
    if "landlock" in layers:
        _restrict_files(scratch)
    if "seccomp" in layers:
        _filter(os.getpid()).load()
    sys.dont_write_bytecode = True
