"""The system calls of a worker, as a seccomp filter: what is not allowed here fails.

Whole calls are listed first. Of others only some forms are allowed, by the values of their
arguments: the listed values pass, and every other value fails. (A list of forbidden values would
not do: the kernel reads only the lower half of some arguments, and the filter compares all of it,
so a forbidden value with another upper half would pass.)
"""

import contextlib
import errno
from typing import Any

# What Python, SQLite and threads need. Landlock and the mounts restrict the files among them.
ALLOWED = """
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range
    open openat creat stat lstat fstat newfstatat statx access faccessat faccessat2 readlink
    readlinkat getdents getdents64 getcwd chdir fchdir statfs fstatfs
    mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat
    truncate ftruncate fallocate fsync fdatasync sync_file_range umask copy_file_range
    sendfile fadvise64
    dup dup2 dup3 pipe pipe2 eventfd2 poll ppoll select pselect6
    epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
    mmap munmap mprotect mremap madvise msync brk membarrier
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack
    pause restart_syscall futex futex_waitv set_robust_list rseq set_tid_address
    arch_prctl sched_yield
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrusage
    getrandom getpid gettid getppid getuid geteuid getgid getegid getgroups getresuid getresgid
    getpgrp uname sysinfo getcpu getrlimit wait4 waitid exit exit_group
    recvfrom recvmsg sendto sendmsg shutdown getsockname getpeername
"""
# What libraries try innocently: it fails as it does without permission.
REFUSED = """
    socket connect bind listen accept accept4 fork vfork execve execveat tkill
    rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_getfd pidfd_send_signal alarm setitimer
    timer_create timerfd_create setpriority sched_setaffinity sched_setscheduler sched_setparam
    setrlimit chown fchown lchown fchownat setxattr lsetxattr fsetxattr mknod mknodat
    setuid setgid setreuid setregid setresuid setresgid setgroups setsid setpgid capset
    shmget semget msgget mq_open memfd_create memfd_secret inotify_init inotify_init1 personality
    mlock mlock2 mlockall ioprio_set sethostname setdomainname name_to_handle_at flock
"""
# What copying a file also does and Landlock does not restrict: it does nothing, silently.
IGNORED = """
    chmod fchmod fchmodat fchmodat2 utime utimes utimensat futimesat
"""
# What no library tries innocently: it ends the process.
DEADLY = """
    ptrace process_vm_readv process_vm_writev kcmp process_madvise unshare setns chroot pivot_root
    mount umount2 fsopen fsmount fsconfig fspick move_mount open_tree mount_setattr
    bpf keyctl add_key request_key perf_event_open io_uring_setup io_uring_enter io_uring_register
    userfaultfd init_module finit_module delete_module kexec_load kexec_file_load reboot swapon
    swapoff acct quotactl open_by_handle_at iopl ioperm modify_ldt fanotify_init lookup_dcookie
    settimeofday clock_settime clock_adjtime adjtimex syslog vhangup nfsservctl
    landlock_create_ruleset seccomp
"""

# Of these calls only some forms are allowed: the position of an argument, and its values.
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, size, FION*, FIO(N)CLEX
_PRCTLS = (15, 16, 0x53564D41)  # the thread's name, names of mappings
# DUPFD, GETFD, SETFD, GETFL, GETLK, SETLK, SETLKW, OFD_*LK*, DUPFD_CLOEXEC, GETPIPE_SZ. Not the
# owner of a descriptor's signals (SETOWN 8, SETSIG 10, SETOWN_EX 15: they reach other processes),
# not leases and notices (1024, 1026: they hold up or signal others).
_FCNTLS = (0, 1, 2, 3, 5, 6, 7, 36, 37, 38, 1030, 1032)
_F_SETFL, _O_ASYNC = 4, 0x2000
_FCNTLS_REFUSED = (8, 10, 15, 1024, 1026)  # with the usual error, for what they mean
_CLONE_THREAD = 0x10000
_AF_UNIX, _SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET = 1, 1, 2, 5
_SOCK_FLAGS = (0, 0x800, 0x80000, 0x80800)  # NONBLOCK, CLOEXEC
_SOL_SOCKET = 1
_SHOWN_OPTIONS = (3, 4, 7, 8, 30, 38, 39)  # type, error, buffers, listening, protocol, family
_SET_OPTIONS = (7, 8)  # the sizes of buffers
_ABOUT_A_PROCESS = (
    "getpgid",
    "getsid",
    "sched_getaffinity",
    "sched_getparam",
    "sched_getscheduler",
)


def filter_of(seccomp: Any, pid: int) -> Any:
    """The filter for the process `pid`, made with the library `pyseccomp`.

    A call that is not named fails as `not implemented`, and so does a form that is not allowed.
    """
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
        (ALLOWED, seccomp.ALLOW),
        (REFUSED, refuse),
        (IGNORED, seccomp.ERRNO(0)),
        (DEADLY, seccomp.KILL_PROCESS),
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
    allow_with("get_robust_list", 0, 0)
    for name in _ABOUT_A_PROCESS:
        allow_with(name, 0, 0, pid)
    for process in (0, pid):
        rule(seccomp.ALLOW, "getpriority", equals(0, 0), equals(1, process))
        rule(seccomp.ALLOW, "prlimit64", equals(0, process), equals(2, 0))  # asking, not setting
    _allow_descriptors(rule, seccomp, refuse)
    return syscalls


def _allow_descriptors(rule: Any, seccomp: Any, refuse: int) -> None:
    """The forms of calls on descriptors and socket pairs.

    A pair of datagram sockets would send to any socket whose path it names; stream pairs send to
    their other end only.
    """

    def equals(position: int, value: int) -> Any:
        return seccomp.Arg(position, seccomp.EQ, value)

    for command in _FCNTLS:
        rule(seccomp.ALLOW, "fcntl", equals(1, command))
    without_signals = seccomp.Arg(2, seccomp.MASKED_EQ, _O_ASYNC, 0)
    rule(seccomp.ALLOW, "fcntl", equals(1, _F_SETFL), without_signals)
    with_signals = seccomp.Arg(2, seccomp.MASKED_EQ, _O_ASYNC, _O_ASYNC)
    rule(refuse, "fcntl", equals(1, _F_SETFL), with_signals)
    for command in _FCNTLS_REFUSED:
        rule(refuse, "fcntl", equals(1, command))
    for flags in _SOCK_FLAGS:
        rule(seccomp.ALLOW, "socketpair", equals(0, _AF_UNIX), equals(1, _SOCK_STREAM | flags))
        for kind in (_SOCK_DGRAM, _SOCK_SEQPACKET):
            rule(refuse, "socketpair", equals(0, _AF_UNIX), equals(1, kind | flags))
    for name, options in (("getsockopt", _SHOWN_OPTIONS), ("setsockopt", _SET_OPTIONS)):
        for option in options:
            rule(seccomp.ALLOW, name, equals(1, _SOL_SOCKET), equals(2, option))
