"""The gate on many worlds: a few processes side by side, each outcome told as soon as it is there.

Each job has two processes whose hashes are seeded otherwise: one checks a world, the other plays
its oracles again, which shows what differs only between processes (the order of a set of texts). A
process that dies or takes too long costs its world only, which is reported as `crash`; after a
number of worlds it is replaced, so that memory stays bounded.

Packages whose code a model wrote, and all where that is asked for, are checked in confined
processes of their own: such a package can lie about itself, at most.
"""

import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import msgspec

from envpool.workers.sandbox import environment, import_root
from judge.gate.context import DEFAULT_SETTINGS, GateSettings
from judge.gate.package import Checked
from judge.gate.report import Failure, Report, refused
from judge.gate.static_checks import sources_of
from judge.gate.wire import Answer, Order
from judge.playback.playback import Fact, told
from scenarios.catalogue import is_trusted
from scenarios.errors import PackageError
from scenarios.format import Scenario

_WORLDS = 100  # that a process checks until it is replaced
_NOTES = 3  # equivalent mutants of a world that are kept where there are many worlds
_MANY = 20
_HASH_SEEDS = ("1", "2")
_answer = msgspec.msgpack.Decoder(Answer).decode


class JobSettings(msgspec.Struct, frozen=True):
    """How worlds are checked side by side."""

    jobs: int = 1
    gate: GateSettings = DEFAULT_SETTINGS
    isolate: bool = False  # confine the code that people wrote, too
    sandbox: str = "best"
    memory_mb: int = 2048  # of one process, beyond what the libraries map
    deadline: float = 120.0  # seconds for one world, which takes about half a second


class Outcome(msgspec.Struct, frozen=True):
    """What is known of one world after its check."""

    name: str
    report: Report
    digest: str = ""  # of its package; empty: it could not be read
    tasks: tuple[str, ...] = ()  # their ids
    features: Sequence[int] = ()  # see judge.gate.near_duplicates


class Crash(Exception):
    """The process of a check ended before its answer; the sentence says how."""


def check_worlds(
    sources: Sequence[str],
    find: Callable[[str], Scenario],
    settings: JobSettings,
    check_record: Callable[[Scenario], Checked],
) -> Iterator[Outcome]:
    """Check worlds, given by what `find` finds them by; outcomes in the order in which they come.
    Leaving it early ends the processes. AWM records are handed to `check_record`, in a thread.

    Raises what `find` raises, PackageError aside: that is a failure of the package.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for source in sources:
        waiting.put(source)
    done: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
    number = min(settings.jobs, len(sources))
    jobs = [_Job(waiting, done, find, settings, check_record) for _ in range(number)]
    many = len(sources) > _MANY
    with ExitStack() as stack:
        for job in jobs:
            stack.callback(job.stop)
            job.start()
        for _ in sources:
            outcome = done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield _trimmed(outcome) if many else outcome


def _trimmed(outcome: Outcome) -> Outcome:
    report = outcome.report
    few = msgspec.structs.replace(report, equivalents=report.equivalents[:_NOTES])
    return msgspec.structs.replace(outcome, report=few)


class _Job(threading.Thread):
    """Takes worlds from the queue until it is empty."""

    def __init__(
        self,
        waiting: "queue.SimpleQueue[str]",
        done: "queue.SimpleQueue[Outcome | BaseException]",
        find: Callable[[str], Scenario],
        settings: JobSettings,
        check_record: Callable[[Scenario], Checked],
    ) -> None:
        super().__init__(daemon=True)
        self._check_record = check_record
        self._waiting = waiting
        self._done = done
        self._find = find
        self._settings = settings
        self._pair = _Pair(settings, confined=False)
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the processes and wait for the thread."""
        self._stopped.set()
        self._pair.kill()
        self.join()

    def run(self) -> None:
        with closing(self._pair):
            while not self._stopped.is_set():
                try:
                    source = self._waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    self._done.put(self._check(source))
                except BaseException as exc:
                    self._done.put(exc)

    def _check(self, source: str) -> Outcome:
        name = Path(source).name
        try:
            scenario = self._find(source)
            if scenario.awm is not None:
                checked = self._check_record(scenario)
                return _outcome(scenario, checked, checked.report)
            sources = sources_of(scenario.path)
        except (PackageError, OSError) as exc:
            return Outcome(name, refused(name, "package", str(exc)))
        if is_trusted(scenario) and not self._settings.isolate:
            return self._checked(scenario, sources, self._pair)
        with closing(_Pair(self._settings, confined=True)) as own:
            return self._checked(scenario, sources, own)

    def _checked(self, scenario: Scenario, sources: dict[str, str], pair: "_Pair") -> Outcome:
        try:
            first, again = pair.ask(scenario, sources)
        except Crash as exc:
            report = refused(scenario.name, "crash", f"its check did not end well: {exc}")
            return _outcome(scenario, Checked(report), report)
        assert first.checked is not None
        checked, report = first.checked, first.checked.report
        failures = _unlike(scenario, checked.facts, again.facts)
        report = msgspec.structs.replace(report, failures=(*report.failures, *failures))
        return _outcome(scenario, checked, report)


def _outcome(scenario: Scenario, checked: Checked, report: Report) -> Outcome:
    tasks = tuple(task.id for task in scenario.tasks)
    features = array("I", checked.features)
    return Outcome(scenario.name, report, scenario.digest, tasks, features)


def _unlike(
    scenario: Scenario, first: Mapping[str, list[Fact]], again: Mapping[str, list[Fact]]
) -> Iterator[Failure]:
    """Where the oracles' calls gave something else in another process."""
    for task in scenario.tasks:
        pairs = zip(first.get(task.id, ()), again.get(task.id, ()), strict=False)
        for call, (one, two) in zip(task.oracle, pairs, strict=False):
            if one != two:
                what = f"{one[0]!r} and {two[0]!r}" if one[0] != two[0] else "two different states"
                why = f"in another process {told(call)} gives {what}"
                yield Failure(scenario.name, task.id, "determinism", why)
                break


class _Pair:
    """The process that checks and the one that plays again."""

    def __init__(self, settings: JobSettings, *, confined: bool) -> None:
        self._settings = settings
        self._processes = [_Process(settings, seed, confined) for seed in _HASH_SEEDS]
        self._asked = 0

    def ask(self, scenario: Scenario, sources: dict[str, str]) -> tuple[Answer, Answer]:
        """What both say of a world. Raises Crash."""
        self._asked += 1
        if self._asked % _WORLDS == 0:
            self.close()
        checker, player = self._processes
        first = checker.ask(Order(scenario, sources, self._settings.gate))
        return first, player.ask(Order(scenario, sources, None))

    def kill(self) -> None:
        """End both at once; what waits for them gets a Crash."""
        for process in self._processes:
            process.kill()

    def close(self) -> None:
        """End both."""
        for process in self._processes:
            process.close()


class _Process:
    """One process, started when it is asked, and again when it is gone."""

    def __init__(self, settings: JobSettings, hash_seed: str, confined: bool) -> None:
        self._settings = settings
        self._hash_seed = hash_seed
        self._confined = confined
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._late = False

    def ask(self, order: Order) -> Answer:
        """Its answer. Raises Crash."""
        process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        self._late = False
        timer = threading.Timer(self._settings.deadline, self._too_late)
        timer.start()
        try:
            pickle.dump(order, process.stdin)
            process.stdin.flush()
            length = int.from_bytes(process.stdout.read(8), "big")
            body = process.stdout.read(length)
        except OSError:  # it is gone
            length, body = 0, b""
        finally:
            timer.cancel()
        if not length or len(body) < length:
            raise Crash(self._ended())
        answer = _answer(body)
        if answer.fault:
            raise Crash(f"the gate broke: {answer.fault}")
        return answer

    def kill(self) -> None:
        """End it at once."""
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """End it, and remove its scratch folder."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
            process.wait()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def _too_late(self) -> None:
        self._late = True
        self.kill()

    def _started(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "judge.gate.worker"]
        command += ["--memory-mb", str(self._settings.memory_mb)]
        known = {**os.environ, "PYTHONPATH": import_root(), "PYTHONSAFEPATH": "1"}
        if self._confined:
            self._scratch = tempfile.TemporaryDirectory(prefix="rehearsal-gate-")
            known = environment(self._scratch.name)
            command += ["--confine", self._scratch.name, "--sandbox", self._settings.sandbox]
        known["PYTHONHASHSEED"] = self._hash_seed
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=known
        )
        return self._process

    def _ended(self) -> str:
        """How the process ended, which is then forgotten."""
        assert self._process is not None
        status = self._process.wait()
        self.close()
        if self._late:
            return f"it took longer than {self._settings.deadline:g} s and was stopped"
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return f"its process ended with {how}"
