"""A plugin of pytest: the CPU seconds of each test file, child processes included.

    python -m pytest -p tests.support.cpu_times tests/judge       (`just cpu tests/judge`)

Wall time says little on a machine that others use. A child process counts for the file in which it
ended; one that a fixture of the session ends counts as `(end of the session)`. Where tests run on
several workers, nothing is measured.
"""

import os
from collections import defaultdict
from collections.abc import Iterator

import pytest

_SHOWN = 25  # files
_seconds: dict[str, float] = defaultdict(float)
_last = 0.0


def cpu_now() -> float:
    """CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _charge(name: str) -> None:
    """Give what was used since the last call to a file."""
    global _last
    now = cpu_now()
    _seconds[name] += now - _last
    _last = now


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Importing modules counts as `(collection)`: the first file would pay for all others."""
    result = yield
    _charge("(collection)")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Set up, call and teardown of a test count for its file."""
    _charge("(between tests)")
    result = yield
    _charge(item.location[0])
    return result


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the files that need most; all of them go to the file that CPU_TIMES names."""
    _charge("(end of the session)")
    ranked = sorted(_seconds.items(), key=lambda pair: -pair[1])
    terminalreporter.section(f"CPU seconds by file: {sum(_seconds.values()):.1f}")
    for name, seconds in ranked[:_SHOWN]:
        terminalreporter.write_line(f"{seconds:8.2f}  {name}")
    if path := os.environ.get("CPU_TIMES"):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{seconds:.3f}\t{name}\n" for name, seconds in ranked)
