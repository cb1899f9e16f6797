"""Run code in a fork of the test process: it has all modules loaded, and may be killed or limited
in the size of its files."""

import os
import sys
import traceback
from collections.abc import Callable


def in_child(work: Callable[[], None]) -> int:
    """Run `work` in a child; returns its exit status, or the negative number of its signal."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)
