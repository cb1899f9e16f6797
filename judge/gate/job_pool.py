"""The gate on many worlds: several processes in parallel, each outcome reported when it is ready.

Each job has two processes with different hash seeds: one checks a world, the other plays its
oracles a second time, which shows what differs only between processes (the order of a set of
texts). A process that dies or takes too long costs only its world, which is reported as `crash`;
after a number of worlds it is replaced, so that memory stays bounded.

Packages whose code a model wrote, and all packages under `isolate`, are checked in confined
processes of their own: the worst that such a package can do is to report false results on itself.
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

from rehearsal_room.envpool.workers.sandbox import environment, import_root
from rehearsal_room.judge.gate.checks.code import sources_of
from rehearsal_room.judge.gate.core.report import GateFailure, WorldGateReport, failed_report
from rehearsal_room.judge.gate.core.task_runner import DEFAULT_SETTINGS, GateSettings
from rehearsal_room.judge.gate.package import CheckResult
from rehearsal_room.judge.gate.wire import CheckReply, CheckRequest, code_of
from rehearsal_room.judge.playback.playback import Fact, format_call
from rehearsal_room.scenarios.catalogue import is_trusted
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.near_misses import NearMiss, near_misses_of

_WORLDS = 100  # that a process checks before it is replaced
_MAX_EQUIVALENTS = 3  # of a world in the report, where there are many worlds
_MANY = 20
_HASH_SEEDS = ("1", "2")
_decode = msgspec.msgpack.Decoder(CheckReply).decode


class JobSettings(msgspec.Struct, frozen=True):
    """How worlds are checked in parallel."""

    jobs: int = 1
    gate: GateSettings = DEFAULT_SETTINGS
    isolate: bool = False  # confine trusted code too
    sandbox: str = "best"
    memory_mb: int = 2048  # of one process, beyond the libraries
    deadline: float = 120.0  # seconds for one world, which takes about half a second


class CheckOutcome(msgspec.Struct, frozen=True):
    """The result of one world's check."""

    name: str
    report: WorldGateReport
    digest: str = ""  # of its package; empty: it could not be read
    tasks: tuple[str, ...] = ()  # their ids
    features: Sequence[int] = ()  # see judge.gate.core.near_duplicates


class Crash(Exception):
    """The process of a check ended before its reply; the message describes how."""


def check_worlds(
    sources: Sequence[str],
    find: Callable[[str], Scenario],
    settings: JobSettings,
    check_record: Callable[[Scenario], CheckResult],
) -> Iterator[CheckOutcome]:
    """Check worlds, given by the names that `find` understands; yields outcomes as they come.
    Closing the iterator early ends the processes. AWM records and worlds of MCP servers are checked
    by `check_record`, in a thread.

    Raises what `find` raises, except PackageError, which is a failure of the package.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for source in sources:
        waiting.put(source)
    done: queue.SimpleQueue[CheckOutcome | BaseException] = queue.SimpleQueue()
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
            yield _trim(outcome) if many else outcome


def _trim(outcome: CheckOutcome) -> CheckOutcome:
    report = outcome.report
    few = msgspec.structs.replace(report, equivalents=report.equivalents[:_MAX_EQUIVALENTS])
    return msgspec.structs.replace(outcome, report=few)


class _Job(threading.Thread):
    """Takes worlds from the queue until it is empty."""

    def __init__(
        self,
        waiting: "queue.SimpleQueue[str]",
        done: "queue.SimpleQueue[CheckOutcome | BaseException]",
        find: Callable[[str], Scenario],
        settings: JobSettings,
        check_record: Callable[[Scenario], CheckResult],
    ) -> None:
        super().__init__(daemon=True)
        self._check_record = check_record
        self._waiting = waiting
        self._done = done
        self._find = find
        self._settings = settings
        self._pair = _ProcessPair(settings, confined=False)
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

    def _check(self, source: str) -> CheckOutcome:
        name = Path(source).name
        try:
            scenario = self._find(source)
            if scenario.awm is not None or scenario.server is not None:
                checked = self._check_record(scenario)
                return _outcome(scenario, checked, checked.report)
            sources = sources_of(scenario.path)
            near_misses = near_misses_of(scenario)
        except (PackageError, OSError) as exc:
            return CheckOutcome(name, failed_report(name, "package", str(exc)))
        strict = self._settings.sandbox == "required"
        if is_trusted(scenario, strict=strict) and not self._settings.isolate:
            return self._checked(scenario, sources, near_misses, self._pair)
        with closing(_ProcessPair(self._settings, confined=True)) as own:
            return self._checked(scenario, sources, near_misses, own)

    def _checked(
        self,
        scenario: Scenario,
        sources: dict[str, str],
        near_misses: tuple[NearMiss, ...],
        pair: "_ProcessPair",
    ) -> CheckOutcome:
        try:
            first, second = pair.ask(scenario, sources, near_misses)
        except Crash as exc:
            report = failed_report(scenario.name, "crash", f"its check ended early: {exc}")
            return _outcome(scenario, CheckResult(report), report)
        assert first.checked is not None
        checked, report = first.checked, first.checked.report
        failures = _differences(scenario, checked.facts, second.facts)
        report = msgspec.structs.replace(report, failures=(*report.failures, *failures))
        return _outcome(scenario, checked, report)


def _outcome(scenario: Scenario, checked: CheckResult, report: WorldGateReport) -> CheckOutcome:
    tasks = tuple(task.id for task in scenario.tasks)
    features = array("I", checked.features)
    return CheckOutcome(scenario.name, report, scenario.digest, tasks, features)


def _differences(
    scenario: Scenario, first: Mapping[str, list[Fact]], second: Mapping[str, list[Fact]]
) -> Iterator[GateFailure]:
    """Where the oracles' calls gave other results in another process."""
    for task in scenario.tasks:
        pairs = zip(first.get(task.id, ()), second.get(task.id, ()), strict=False)
        for call, (one, two) in zip(task.oracle, pairs, strict=False):
            if one != two:
                what = f"{one[0]!r} and {two[0]!r}" if one[0] != two[0] else "two different states"
                why = f"in another process {format_call(call)} gives {what}"
                yield GateFailure(scenario.name, task.id, "determinism", why)
                break


class _ProcessPair:
    """The process that checks and the one that plays the oracles a second time."""

    def __init__(self, settings: JobSettings, *, confined: bool) -> None:
        self._settings = settings
        self._processes = [_Process(settings, seed, confined) for seed in _HASH_SEEDS]
        self._asked = 0

    def ask(
        self, scenario: Scenario, sources: dict[str, str], near_misses: tuple[NearMiss, ...]
    ) -> tuple[CheckReply, CheckReply]:
        """The replies of both about a world. Raises Crash."""
        self._asked += 1
        if self._asked % _WORLDS == 0:
            self.close()
        checker, player = self._processes
        code = code_of(scenario, sources)
        request = CheckRequest(scenario, sources, self._settings.gate, near_misses, code)
        first = checker.ask(request)
        return first, player.ask(CheckRequest(scenario, sources, None, code=code))

    def kill(self) -> None:
        """End both at once; a caller that waits for them gets a Crash."""
        for process in self._processes:
            process.kill()

    def close(self) -> None:
        """End both."""
        for process in self._processes:
            process.close()


class _Process:
    """One process, started at the first request, and after it has ended."""

    def __init__(self, settings: JobSettings, hash_seed: str, confined: bool) -> None:
        self._settings = settings
        self._hash_seed = hash_seed
        self._confined = confined
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._late = False

    def ask(self, request: CheckRequest) -> CheckReply:
        """Its reply to a request. Raises Crash."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        self._late = False
        timer = threading.Timer(self._settings.deadline, self._too_late)
        timer.start()
        try:
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            length = int.from_bytes(process.stdout.read(8), "big")
            body = process.stdout.read(length)
        except OSError:  # it has ended
            length, body = 0, b""
        finally:
            timer.cancel()
        if not length or len(body) < length:
            raise Crash(self._reason())
        reply = _decode(body)
        if reply.fault:
            raise Crash(f"the gate failed: {reply.fault}")
        return reply

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

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "rehearsal_room.judge.gate.worker"]
        command += ["--memory-mb", str(self._settings.memory_mb)]
        variables = {**os.environ, "PYTHONPATH": import_root(), "PYTHONSAFEPATH": "1"}
        if self._confined:
            self._scratch = tempfile.TemporaryDirectory(prefix="rehearsal-gate-")
            variables = environment(self._scratch.name)
            command += ["--confine", self._scratch.name, "--sandbox", self._settings.sandbox]
        variables["PYTHONHASHSEED"] = self._hash_seed
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables
        )
        return self._process

    def _reason(self) -> str:
        """How the process ended. The next request starts another one."""
        assert self._process is not None
        status = self._process.wait()
        self.close()
        if self._late:
            return f"it took longer than {self._settings.deadline:g} s and was stopped"
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return f"its process ended with {how}"
