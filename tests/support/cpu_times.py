"""A plugin of pytest: the CPU seconds of each test file and test, child processes included.

    python -m pytest -p tests.support.cpu_times tests/judge       (`just cpu tests/judge`)

Wall time says little on a machine that others use. Processes that are still alive when a file's
tests have ended count for that file as far as they have come; of a single test, only processes
count that have ended within it. Workers inside of bubblewrap are lost when they end, so files that
use them need more than is shown. Where tests run on several workers, nothing is measured.
"""

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterator

import psutil
import pytest

_SHOWN = 25  # files, and tests
_files: dict[str, float] = defaultdict(float)
_tests: dict[str, float] = defaultdict(float)  # all parameters of a test together
_last = 0.0  # CPU seconds at the end of the file before


def ended_cpu() -> float:
    """CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _all_cpu() -> float:
    """The same, with the processes that are alive; reading them takes milliseconds."""
    total = ended_cpu()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = child.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _charge(name: str) -> None:
    """Give what was used since the last call to a file."""
    global _last
    now = _all_cpu()
    _files[name] += max(0.0, now - _last)
    _last = now


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Importing modules counts as `(collection)`: the first file would pay for all others."""
    _charge("(collection)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Set up, call and teardown of a test count for it and for its file."""
    began = ended_cpu()
    result = yield
    _tests[item.nodeid.partition("[")[0]] += ended_cpu() - began
    if nextitem is None or nextitem.location[0] != item.location[0]:
        _charge(item.location[0])
    return result


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print those that need most; all of them go to the file that CPU_TIMES names."""
    _charge("(end of the session)")
    for title, table in (("file", _files), ("test", _tests)):
        ranked = sorted(table.items(), key=lambda pair: -pair[1])
        terminalreporter.section(f"CPU seconds by {title}: {sum(table.values()):.1f}")
        for name, seconds in ranked[:_SHOWN]:
            terminalreporter.write_line(f"{seconds:8.2f}  {name}")
    if path := os.environ.get("CPU_TIMES"):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(
                f"{seconds:.3f}\t{name}\n" for name, seconds in (*_files.items(), *_tests.items())
            )
