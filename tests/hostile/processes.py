"""Other processes, signals, and the end of its own process. See tests/hostile/gather.py."""


def fork_bomb():
    """ended: the code tried to fork"""
    import os

    while True:
        os.fork()


def run_a_program():
    """ended: the code tried to start a process"""
    import subprocess

    return subprocess.check_output(["id"])


def run_a_shell():
    """ended: the code tried to run a shell command"""
    import os

    os.system("id > stolen")


def become_a_program():
    """ended: the code tried to execute a program"""
    import os

    os.execv("/bin/sh", ["sh", "-c", "id"])


def spawn():
    """ended: the code tried to start a process"""
    import os

    os.posix_spawn("/bin/sh", ["sh"], {})


def start_a_pool():
    """ended: the code tried to"""
    import multiprocessing

    process = multiprocessing.get_context("fork").Process(target=print)
    process.start()


def fork_by_the_c_module():
    """failed"""
    import _posixsubprocess  # whose fork_exec has no audit event
    import os

    pipe = os.pipe()
    return _posixsubprocess.fork_exec(
        ["id"], (b"/usr/bin/id",), True, (pipe[1],), None, None, -1, -1, -1, -1, -1, -1, *pipe,
        True, False, 0, None, None, None, -1, None, False,
    )  # fmt: skip


def kill_the_parent():
    """ended: the code tried to send a signal"""
    import os
    import signal

    os.kill(os.getppid(), signal.SIGKILL)


def kill_everything():
    """ended: the code tried to send a signal"""
    import os
    import signal

    os.kill(-1, signal.SIGKILL)


def kill_by_descriptor():
    """failed"""
    import os
    import signal

    signal.pidfd_send_signal(os.pidfd_open(os.getppid()), signal.SIGKILL)


def exit_at_once():
    """ended: it ended with exit status 3"""
    import os

    os._exit(3)


def exit_successfully():
    """ended: it ended"""
    import os

    os._exit(0)


def abort():
    """ended: it aborted (SIGABRT)"""
    import os

    os.abort()


def crash():
    """ended: it crashed (SIGSEGV)"""
    import signal

    signal.raise_signal(signal.SIGSEGV)


def stop_itself():
    """ended: longer than"""
    import signal

    signal.raise_signal(signal.SIGSTOP)


def raise_system_exit():
    """failed or ended"""
    import sys

    sys.exit("goodbye")


def raise_keyboard_interrupt():
    """failed or ended"""
    raise KeyboardInterrupt("goodbye")


def set_an_alarm():
    """answered: the alarm does not ring"""
    import signal

    signal.alarm(1)
    return "the alarm does not ring"


def become_another_user():
    """failed"""
    import os

    os.setuid(4711)


def trace_by_system_call():
    """ended: the code tried to"""
    import ctypes

    ctypes.CDLL(None).ptrace(16, 1, 0, 0)
