"""Code in a process of its own, forked from the test's: it has all modules already, and may be
killed or have its files limited."""

import os
import sys
import traceback
from collections.abc import Callable


def in_child(work: Callable[[], None]) -> int:
    """Run it in a child; gives its exit status, or the negative number of what killed it."""
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
