"""The recipes of CI: what each installs, how many cores it keeps busy, and what runs beside what.

    python -m tests.support.ci_recipes [RECIPE...]      (`.ci/run` installs `just` for it)

What a change breaks most often runs first. Recipes run side by side as far as the machine has
cores. The output of each comes as one block when it ends; after one that fails no other begins. The
last lines have the seconds of each. Where CI_BASE names a commit, recipes that cannot have been
broken since are left out (tests/support/changed_parts.py). It needs Python, git and just only.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import NamedTuple

from tests.support.changed_parts import ROOT, can_break, changed_files

ALL = 0.0  # cores: as many as there are
_HERE = ("just sync", "just setup")
AGAIN = "test-again"  # the recipe that runs the tests that failed last


class Recipe(NamedTuple):
    """How a recipe is run."""

    cores: float = ALL  # that it keeps busy
    install: tuple[str, ...] = _HERE  # commands that install what it needs
    again: tuple[str, ...] = ()  # what is run when it fails: AGAIN with its arguments, or itself


# In the order in which they start. Browser and cluster have deadlines, so they run alone. Those
# that wait for a model server or a package index are tried twice as a whole.
RECIPES = {
    "types": Recipe(1),
    "style": Recipe(1),
    "layers": Recipe(1),
    "docs": Recipe(1, ("just sync-docs",)),
    "gate": Recipe(1),
    "conformance": Recipe(1, (*_HERE, "tests/conformance/run.sh --install")),
    "test-all": Recipe(ALL, again=(AGAIN,)),
    "test": Recipe(ALL, again=(AGAIN,)),
    "test-slow": Recipe(ALL, again=(AGAIN,)),
    "test-vllm": Recipe(1, (*_HERE, "tests/vllm/run.sh --install"), ("test-vllm",)),
    "test-viewer": Recipe(
        ALL,
        (*_HERE, "tests/viewer_web/run.sh --install"),
        (AGAIN, ".venv-viewer/bin/python", "tests/viewer_web"),
    ),
    "test-install": Recipe(1, ("tests/install/run.sh --install",), ("test-install",)),
    "test-ray": Recipe(
        ALL,
        (*_HERE, "tests/ray/run.sh --install"),
        (AGAIN, ".venv-ray/bin/python", "tests/ray"),
    ),
    "test-suites": Recipe(1, (*_HERE, "tests/suites/run.sh --install")),
    "sandbox-table": Recipe(1),
}
PARTS = {"check": ("types", "style", "layers")}  # recipes that only name others
CI = (
    *("check", "docs", "gate", "conformance", "test-all", "test-vllm", "test-viewer"),
    *("test-install", "test-ray", "test-suites", "sandbox-table"),
)


class Done(NamedTuple):
    """A recipe that has ended."""

    name: str
    passed: bool
    seconds: float
    output: str


class Runner:
    """Runs recipes, each in a session of its own, so that all of it can be ended."""

    def __init__(self, command: Sequence[str] = ("just",)) -> None:
        self._command = command
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_ended = False

    def run(self, name: str) -> Done:
        """Run a recipe, and again if that is how it is tried."""
        flaky = f"flaky: {name} failed once, and passed the second time\n"
        recipe, began = RECIPES.get(name, Recipe()), time.monotonic()
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        if AGAIN not in recipe.again:  # else its failed tests are in pytest's cache
            environment["PYTEST_ADDOPTS"] = "-p no:cacheprovider"
        with tempfile.TemporaryFile() as output:

            def passes(*words: str) -> bool:
                if self._is_ended:
                    return False
                command = [*self._command, *words]
                process = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                self._running.add(process)
                try:
                    return process.wait() == 0
                finally:
                    self._running.discard(process)

            passed = passes(name)
            if not passed and recipe.again:
                passed = passes(*recipe.again)
                if passed and AGAIN not in recipe.again:
                    output.write(flaky.encode())
            output.seek(0)
            text = output.read().decode(errors="replace")
        return Done(name, passed, time.monotonic() - began, text)

    def end(self) -> None:
        """End what runs; nothing begins any more."""
        self._is_ended = True
        for process in tuple(self._running):
            os.killpg(process.pid, signal.SIGTERM)


def side_by_side(names: Sequence[str], cores: int, runner: Runner) -> Iterator[Done]:
    """Run recipes in their order, as many at a time as there are cores for; each as it ends. After
    one that fails no other begins."""
    left, running = deque(names), dict[Future[Done], float]()
    has_failed = False
    with ThreadPoolExecutor(max_workers=len(names) or 1) as threads:
        try:
            while running or (left and not has_failed):
                while left and not has_failed:
                    needed = min(RECIPES.get(left[0], Recipe()).cores or cores, cores)
                    if running and sum(running.values()) + needed > cores:
                        break
                    running[threads.submit(runner.run, left.popleft())] = needed
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[future]
                    done = future.result()
                    has_failed |= not done.passed
                    yield done
        except BaseException:
            runner.end()
            raise


def whole(names: Sequence[str]) -> list[str]:
    """Recipes in the order in which they run, those that name others replaced by them.

    Example: ["gate", "check"] -> ["types", "style", "layers", "gate"]
    """
    known = list(RECIPES)
    found = dict.fromkeys(part for name in names for part in PARTS.get(name, (name,)))
    return sorted(found, key=lambda name: known.index(name) if name in known else len(known))


def to_run(names: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """Those that are run, where CI_BASE is set those that a change since then can have broken."""
    found = whole(names or CI)
    if base := variables.get("CI_BASE"):
        changed = changed_files(base)
        left_out = [name for name in found if not can_break(name, changed)]
        found = [name for name in found if name not in left_out]
        _say(f"{len(changed)} files differ from {base}; left out: {', '.join(left_out) or 'none'}")
    return found


def installations(names: Sequence[str]) -> list[str]:
    """The commands that install what recipes need, each once."""
    return list(dict.fromkeys(each for name in names for each in RECIPES.get(name, _OTHER).install))


_OTHER = Recipe(install=())  # a recipe that is not among those of CI installs what it needs


def main(names: Sequence[str]) -> int:
    """The exit status: 0 where all recipes pass."""
    chosen = to_run(names, os.environ)
    times, began = [], time.monotonic()
    for command in installations(chosen):
        subprocess.run(command.split(), cwd=ROOT, check=True)
    times.append(_time("prepare", time.monotonic() - began))
    began, flaky, failed = time.monotonic(), list[str](), list[str]()
    for done in side_by_side(chosen, os.cpu_count() or 1, Runner()):
        _say(f"=== {done.name}: {'passed' if done.passed else 'FAILED'}, {done.seconds:.0f} s")
        _say(done.output.rstrip("\n"))
        times.append(_time(done.name, done.seconds))
        flaky += re.findall(r"^flaky: .*", done.output, re.MULTILINE)
        failed += [] if done.passed else [done.name]
    _say("\n".join(times))
    _say(f"{time.monotonic() - began:.0f} s without installing")
    _say("\n".join([*flaky, *(f"failed: {name}" for name in failed)]))
    return 1 if failed else 0


def _time(name: str, seconds: float) -> str:
    return f"{seconds:6.0f} s  {name}"


def _say(text: str) -> None:
    if text:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main(sys.argv[1:]))
