"""An exception of a rollout process, raised again in the coordinator with its traceback."""

import builtins
import sys
import traceback

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.harness.core.errors import HarnessError
from rehearsal_room.harness.fleet.messages import ProcessFailed
from rehearsal_room.scenarios.errors import ScenarioError

_EXPECTED = (HarnessError, PoolError, ScenarioError)


class WorkerTraceback(Exception):
    """The cause of an exception that came from a rollout process: the traceback there."""


def failed_of(exc: BaseException) -> ProcessFailed:
    """The exception as a message."""
    kind = type(exc)
    text = "".join(traceback.format_exception(exc))
    return ProcessFailed(kind.__module__, kind.__qualname__, str(exc), text)


def exception_of(failed: ProcessFailed) -> Exception:
    """The exception: of the same type, if it is one of Rehearsal's or Python's own and is made from
    its message; else a RuntimeError that names the type. A bug has the traceback as its cause."""
    module = builtins if failed.module == "builtins" else sys.modules.get(failed.module)
    kind = getattr(module, failed.name, None)
    if isinstance(kind, type) and issubclass(kind, _EXPECTED):
        return _made(kind, failed)
    if isinstance(kind, type) and issubclass(kind, Exception):
        found = _made(kind, failed)
    else:
        found = RuntimeError(f"{failed.name}: {failed.message}")
    found.__cause__ = WorkerTraceback(f"in a rollout process:\n{failed.traceback}")
    return found


def _made(kind: type[Exception], failed: ProcessFailed) -> Exception:
    try:
        found = kind(failed.message)
    except TypeError:
        return RuntimeError(f"{failed.name}: {failed.message}")
    if str(found) != failed.message:  # a KeyError quotes its message
        return RuntimeError(f"{failed.name}: {failed.message}")
    return found
