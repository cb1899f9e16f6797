"""The quality gate of worlds: what a package must prove before an agent meets it.

    package      its files are there, and say what they must
    seed         schema and data load without a fault
    tools        tools.py can be told as tools
    verifier     each task's verifier is there, never raises, changes nothing, repeats itself
    oracle       every call of the oracle succeeds, and the verifier finds the task completed
    kind         a `change` task's oracle changes rows, that of another kind changes none
    difficulty   the declared word is the measured one
    noop         doing nothing does not complete a task, nor does saying it was done
    mutants      at least 98 % of the oracles with one mistake are not completed
    tool         no call that fits a tool's schema breaks the tool
    determinism  equal calls on two leases, in two hosts, give equal results and states

Everything runs in this process, so the gate is for packages whose code is trusted. Nothing is
printed. A mutant that ends in the oracle's very state with the oracle's answer is no mistake that
could be seen: it is *equivalent*, listed apart, and not counted among the mutants.
"""

import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from envpool.changes import net_changes
from envpool.errors import SeedError, ToolsetError
from envpool.types import StoredState, ToolResult
from envpool.world import Lease, World
from harness.events import Ending, EpisodeEnded, EpisodeStarted, Judged, Label, StepTaken
from harness.messages import Act, AgentCall, Reply
from harness.policies.mutants import Mutant, mutants_of
from harness.trajectory import Trajectory
from judge.chance import uses_of_chance
from judge.code import CodeJudge
from scenarios.api import RowChange
from scenarios.catalogue import find
from scenarios.checks import failed
from scenarios.errors import PackageError
from scenarios.format import Call, Difficulty, Scenario, Task

MIN_CAUGHT = 0.98  # of the mutants
MAX_MUTANTS = 400  # a task; beyond that a seeded sample
PROBES = 40  # calls a tool
_encode = msgspec.msgpack.Encoder().encode


class Failure(msgspec.Struct, frozen=True):
    """One defect. `task` is empty where it is the world's."""

    world: str
    task: str
    check: str
    why: str


class MutantNote(msgspec.Struct, frozen=True):
    """A mutant worth a look."""

    world: str
    task: str
    kind: str
    mutation: str
    why: str


class Report(msgspec.Struct, frozen=True):
    """What the gate says of one world, or of several (see `merged`)."""

    worlds: int
    tasks: int = 0
    tools: int = 0
    failures: tuple[Failure, ...] = ()
    mutants: int = 0  # without the equivalents
    mutants_caught: int = 0
    mutants_left_out: int = 0  # beyond the cap of a task
    survivors: tuple[MutantNote, ...] = ()  # completed, though mistaken
    equivalents: tuple[MutantNote, ...] = ()
    probes: int = 0
    unreached: tuple[str, ...] = ()  # world.tool: no oracle or probe had a success with it

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failures


class _Played(msgspec.Struct, frozen=True):
    """Some calls on a fresh lease, and where they led."""

    lease: Lease
    trajectory: Trajectory
    results: tuple[ToolResult, ...]
    changes: tuple[RowChange, ...]
    state: StoredState

    @property
    def facts(self) -> list[tuple[str, str | None, str]]:
        """What must be equal whenever the calls are played."""
        return [(result.text, result.error, result.digest) for result in self.results]


def check_scenario(
    source: str | Path | Scenario,
    *,
    seed: int = 0,
    max_mutants: int = MAX_MUTANTS,
    probes: int = PROBES,
) -> Report:
    """Every check on one package, given by name, folder or as read. Raises UnknownScenario."""
    try:
        scenario = source if isinstance(source, Scenario) else find(str(source))
    except PackageError as exc:
        return _refused(Path(str(source)).name, "package", exc)
    worlds: list[World] = []
    try:
        worlds = [World(scenario), World(scenario)]
        inspection = _Inspection(*worlds, seed=seed, max_mutants=max_mutants, probes=probes)
        return inspection.report()
    except SeedError as exc:
        return _refused(scenario.name, "seed", exc)
    except ToolsetError as exc:
        return _refused(scenario.name, "tools", exc)
    except PackageError as exc:
        return _refused(scenario.name, "verifier", exc)
    finally:
        for world in worlds:
            world.close()


def merged(reports: Iterable[Report]) -> Report:
    """Several reports as one: numbers added up, lists one after the other."""
    total = Report(worlds=0)
    for report in reports:
        total = Report(
            *(getattr(total, field) + getattr(report, field) for field in Report.__struct_fields__)
        )
    return total


def points(num_calls: int, num_tables: int) -> int:
    """How much a task asks for: calls of its oracle and tables whose rows these change."""
    return num_calls + num_tables


def difficulty_of(measured: int) -> Difficulty:
    """The word for so many points."""
    if measured <= 3:
        return "simple"
    return "medium" if measured <= 7 else "hard"


def _refused(world: str, check: str, fault: Exception) -> Report:
    return Report(worlds=1, failures=(Failure(world, "", check, str(fault)),))


class _Inspection:
    """One gate's work on one scenario, hosted twice."""

    def __init__(
        self, world: World, twin: World, *, seed: int, max_mutants: int, probes: int
    ) -> None:
        self._world = world
        self._twin = twin
        self._scenario = world.scenario
        self._judge = CodeJudge(lambda _: world)
        self._seed = seed
        self._max_mutants = max_mutants
        self._probes = probes
        self._failures: dict[Failure, None] = {}  # in order, none twice
        self._succeeded: set[str] = set()
        self._broken: dict[str, tuple[Call, ToolResult]] = {}  # tool -> its first breakdown
        self._mutants = self._caught = self._left_out = self._num_probes = 0
        self._survivors: list[MutantNote] = []
        self._equivalents: list[MutantNote] = []

    def report(self) -> Report:
        """Do it all."""
        tasks = self._scenario.tasks
        oracles = {task.id: self._play(self._world, task, task.oracle) for task in tasks}
        for task in tasks:
            self._check_oracle(task, oracles[task.id])
            self._check_noop(task)
            self._check_mutants(task, oracles[task.id])
        self._check_share()
        self._check_tools([played.lease for played in oracles.values()])
        self._check_determinism(oracles)
        unreached = (tool.name for tool in self._world.tools if tool.name not in self._succeeded)
        return Report(
            worlds=1,
            tasks=len(tasks),
            tools=len(self._world.tools),
            failures=tuple(self._failures),
            mutants=self._mutants,
            mutants_caught=self._caught,
            mutants_left_out=self._left_out,
            survivors=tuple(self._survivors),
            equivalents=tuple(self._equivalents),
            probes=self._num_probes,
            unreached=tuple(f"{self._scenario.name}.{name}" for name in unreached),
        )

    def _fail(self, check: str, why: str, task: Task | None = None) -> None:
        failure = Failure(self._scenario.name, task.id if task else "", check, why)
        self._failures[failure] = None

    def _play(
        self, world: World, task: Task, calls: Sequence[Call], answer: str | None = None
    ) -> _Played:
        """The calls on a fresh lease, then the answer (None: the oracle's)."""
        lease = world.lease()
        results = tuple(lease.call(call.name, call.arguments) for call in calls)
        for call, result in zip(calls, results, strict=True):
            self._note(call, result)
        state = lease.state()
        trajectory = _trajectory(
            world, task, calls, results, task.answer if answer is None else answer, state
        )
        changes = net_changes(result.changes for result in results)
        return _Played(lease, trajectory, results, changes, state)

    def _note(self, call: Call, result: ToolResult) -> None:
        if result.error is None:
            self._succeeded.add(call.name)
        elif result.error in ("internal", "timeout"):
            self._broken.setdefault(call.name, (call, result))

    def _verdict(self, task: Task, played: _Played, what: str) -> Judged:
        """The code judge's; a verifier that fails is a failure of the gate."""
        judged = self._judge.judge(played.trajectory)
        if judged.label is None:
            self._fail("verifier", f"{what}: {judged.unjudged}", task)
        return judged

    def _check_oracle(self, task: Task, played: _Played) -> None:
        shown = _encode(played.changes)
        for index, (call, result) in enumerate(zip(task.oracle, played.results, strict=True)):
            if result.error is not None:
                why = f"call {index + 1}, {_told(call)}, fails ({result.error}): {result.text}"
                self._fail("oracle", why, task)
        judged = self._verdict(task, played, "on the oracle's state")
        if judged.label is not None and judged.label is not Label.COMPLETED:
            missed = "; ".join(
                f"{finding.name}: expected {finding.expected}, found {finding.found}"
                for finding in failed(judged.findings)
            )
            self._fail("oracle", f"it is judged {judged.label}: {missed}", task)
        self._check_pure(task, played, judged, shown)
        if task.kind == "change" and not played.changes:
            self._fail("kind", "a task of kind 'change' whose oracle changes no row", task)
        if task.kind != "change" and played.changes:
            tables = ", ".join(sorted({change.table for change in played.changes}))
            why = f"a task of kind {task.kind!r} whose oracle changes rows of {tables}"
            self._fail("kind", why, task)
        num_tables = len({change.table for change in played.changes})
        measured = points(len(task.oracle), num_tables)
        if task.difficulty != difficulty_of(measured):
            why = (
                f"declared {task.difficulty}, but {len(task.oracle)} calls and {num_tables} "
                f"changed tables are {measured} points, which is {difficulty_of(measured)}"
            )
            self._fail("difficulty", why, task)

    def _check_pure(self, task: Task, played: _Played, judged: Judged, shown: bytes) -> None:
        """The verifier must leave alone what it is shown, and say the same when asked again."""
        if judged.label is None:
            return
        if _encode(played.changes) != shown:
            self._fail("verifier", "it alters the changes that it is shown", task)
        again = self._judge.judge(played.trajectory)
        if again.findings != judged.findings:
            self._fail("verifier", "it gives other findings when it is asked again", task)
        _, after = self._world.states(played.state)
        if tuple(after.changes) != played.changes:
            self._fail("verifier", "it alters the state that it is shown", task)

    def _check_noop(self, task: Task) -> None:
        idle = self._verdict(task, self._play(self._world, task, (), ""), "after doing nothing")
        if idle.label is Label.COMPLETED:
            self._fail("noop", "doing nothing and saying nothing completes it", task)
        elif task.kind == "change":
            boast = self._verdict(task, self._play(self._world, task, ()), "after doing nothing")
            if boast.label is Label.COMPLETED:
                self._fail("noop", "saying that it is done, without doing it, completes it", task)

    def _check_mutants(self, task: Task, oracle: _Played) -> None:
        writes = [bool(result.changes) for result in oracle.results]
        mutants = mutants_of(task, writes, self._world.tools)
        if len(mutants) > self._max_mutants:
            self._left_out += len(mutants) - self._max_mutants
            sample = random.Random(self._seed).sample(range(len(mutants)), self._max_mutants)
            mutants = [mutants[index] for index in sorted(sample)]
        for mutant in mutants:
            self._try_mutant(task, oracle, mutant)

    def _try_mutant(self, task: Task, oracle: _Played, mutant: Mutant) -> None:
        played = self._play(self._world, task, mutant.calls, mutant.answer)
        label = self._verdict(task, played, f"on the state of a mutant ({mutant.note})").label
        note = MutantNote(self._scenario.name, task.id, mutant.kind, mutant.note, "")
        if played.state.digest == oracle.state.digest and mutant.answer == task.answer:
            why = "it ends in the oracle's state with the oracle's answer"
            self._equivalents.append(msgspec.structs.replace(note, why=why))
            return
        self._mutants += 1
        if label is Label.COMPLETED:
            why = _difference(played, oracle, mutant.answer)
            self._survivors.append(msgspec.structs.replace(note, why=why))
        else:
            self._caught += 1

    def _check_share(self) -> None:
        """Name the tasks whose mutants survive when too many of the world's do."""
        if self._caught >= MIN_CAUGHT * self._mutants:
            return
        for task in self._scenario.tasks:
            notes = [note for note in self._survivors if note.task == task.id]
            if notes:
                count = "one mutant is" if len(notes) == 1 else f"{len(notes)} mutants are"
                why = f"{count} completed, as this: {notes[0].mutation}; {notes[0].why}"
                self._fail("mutants", why, task)

    def _check_tools(self, oracle_leases: Sequence[Lease]) -> None:
        """Probe every tool, on the start state and on those that the oracles left."""
        for call, result in self._broken.values():
            self._fail("tool", f"{_told(call)} breaks it: {result.text}")

    def _check_determinism(self, oracles: dict[str, _Played]) -> None:
        for fault in uses_of_chance(self._scenario.path / "tools.py"):
            self._fail("determinism", fault)
        if self._twin.template.image != self._world.template.image:
            self._fail("determinism", "two hosts seed databases that differ")
        for task in self._scenario.tasks:
            first = oracles[task.id].facts
            for world in (self._world, self._twin):
                again = self._play(world, task, task.oracle).facts
                if again != first:
                    self._fail("determinism", _divergence(task, first, again), task)
                    break


def _trajectory(
    world: World,
    task: Task,
    calls: Sequence[Call],
    results: Sequence[ToolResult],
    answer: str,
    state: StoredState,
) -> Trajectory:
    """The calls as an episode that was answered, one call a step."""
    started = EpisodeStarted(
        scenario=world.scenario.name,
        task=task.id,
        instruction=task.instruction,
        group="gate",
        member=0,
        group_size=1,
        seed=0,
        policy="gate",
        dialect="native",
        history="full",
        fingerprint="",
        package=world.scenario.digest,
        world=world.start_digest,
    )
    steps = tuple(
        StepTaken(Reply(), Act((AgentCall(call.name, call.arguments, f"c{index}"),)), (result,))
        for index, (call, result) in enumerate(zip(calls, results, strict=True))
    )
    ended = EpisodeEnded(Ending.ANSWERED, answer, len(steps), state)
    return Trajectory("gate", 0, started, steps, ended)


def _told(call: Call) -> str:
    """Example: pay_fine(member_id=2, method='card')"""
    given: Any = call.arguments
    shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return f"{call.name}({shown})"


def _difference(played: _Played, oracle: _Played, answer: str) -> str:
    """Where a surviving mutant's end differs from the oracle's."""
    wanted = {(change.table, change.key): change.after for change in oracle.changes}
    for change in played.changes:
        place = f"{change.table} {', '.join(map(str, change.key))}"
        if (change.table, change.key) not in wanted:
            return f"the oracle leaves {place} alone"
        row = wanted[change.table, change.key]
        if change.after != row:
            columns = (change.after or row or {}).keys()
            first = next(c for c in columns if (change.after or {}).get(c) != (row or {}).get(c))
            found, expected = (change.after or {}).get(first), (row or {}).get(first)
            return f"{place} has {first}={found!r} where the oracle has {expected!r}"
    missing = wanted.keys() - {(change.table, change.key) for change in played.changes}
    if missing:
        table, key = min(missing, key=repr)
        return f"{table} {', '.join(map(str, key))} is not changed, by the oracle it is"
    return f"the answer is {answer!r}"


def _divergence(
    task: Task, first: list[tuple[str, str | None, str]], again: list[tuple[str, str | None, str]]
) -> str:
    for index, (one, two) in enumerate(zip(first, again, strict=True)):
        if one != two:
            what = f"{one[0]!r} and {two[0]!r}" if one[0] != two[0] else "two different states"
            return f"call {index + 1}, {_told(task.oracle[index])}, played again gives {what}"
    return "two hosts differ"


def main(names: Sequence[str]) -> int:
    """Check the named packages and write the report as JSON; 1 when one has a defect."""
    report = merged(check_scenario(name) for name in names)
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
