"""The quality gate of worlds: what a package must prove before an agent meets it.

    package      its files are there, and say what they must
    seed         schema and data load without a fault
    tools        tools.py can be told as tools
    verifier     each task's verifier is there, never raises, changes nothing, repeats itself
    oracle       every call of the oracle succeeds, and the verifier finds the task completed
    kind         a `change` task's oracle changes rows, that of another kind changes none
    difficulty   the declared word is the measured one
    noop         doing nothing does not complete a task, nor does only saying that it was done
    mutants      at least 98 % of the oracles with one mistake are not completed
    tool         no call that fits a tool's schema breaks the tool
    determinism  equal calls on two leases, in two hosts, give equal results and states

Everything runs in this process, so the gate is for packages whose code is trusted. Nothing is
printed. A mutant that ends in the oracle's very state with the oracle's answer is no mistake that
could be seen: it is *equivalent*, listed apart, and not counted among the mutants.

Not covered: what differs only between processes (the order of a set of texts), and tools that
misread a valid call without breaking.
"""

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import msgspec

from envpool.errors import SeedError, ToolsetError
from envpool.types import StoredState, ToolResult
from envpool.world import Lease, World
from harness.events import Judged, Label
from harness.policies.mutants import Mutant
from judge.attempts import (
    MAX_MUTANTS,
    Writes,
    is_equivalent,
    mutants_on,
    why_equivalent,
    writes_of,
)
from judge.chance import uses_of_chance
from judge.code import CodeJudge
from judge.errors import VerifierError
from judge.gate_report import Failure, MutantNote, Report, merged
from judge.played import Played, difference, divergence, play, told
from judge.probe import Prober
from judge.verifier import Verifier
from scenarios.catalogue import find
from scenarios.checks import failed
from scenarios.errors import PackageError, UnknownScenario
from scenarios.format import Call, Difficulty, Scenario, Task

MIN_CAUGHT = 0.98  # of the mutants
PROBES = 40  # calls a tool
_STATES = 25  # states left by probes on which every verifier is tried
_encode = msgspec.msgpack.Encoder().encode


class GateSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far the gate goes."""

    seed: int = 0
    max_mutants: int = MAX_MUTANTS
    probes: int = PROBES


DEFAULT_SETTINGS = GateSettings()


def check_scenario(
    source: str | Path | Scenario, settings: GateSettings = DEFAULT_SETTINGS
) -> Report:
    """Every check on one package, given by name, by folder or as read. Raises UnknownScenario."""
    try:
        scenario = source if isinstance(source, Scenario) else find(str(source))
    except PackageError as exc:
        return _refused(Path(str(source)).name, "package", exc)
    try:
        with closing(World(scenario)) as world, closing(World(scenario)) as twin:
            return _Inspection(world, twin, Verifier(scenario), settings).report()
    except SeedError as exc:
        return _refused(scenario.name, "seed", exc)
    except ToolsetError as exc:
        return _refused(scenario.name, "tools", exc)
    except PackageError as exc:
        return _refused(scenario.name, "verifier", exc)


def difficulty_of(points: int) -> Difficulty:
    """The word for what a task asks for: calls of its oracle plus tables whose rows they change."""
    if points <= 3:
        return "simple"
    return "medium" if points <= 7 else "hard"


def _refused(world: str, check: str, fault: Exception) -> Report:
    failure = Failure(world, "", check, str(fault))
    return Report(worlds=1, names=(world,), failures=(failure,))


class _Inspection:
    """One gate's work on one scenario, hosted twice."""

    def __init__(
        self, world: World, twin: World, verifier: Verifier, settings: GateSettings
    ) -> None:
        self._world = world
        self._twin = twin
        self._verifier = verifier
        self._settings = settings
        self._name = world.scenario.name
        self._tasks = world.scenario.tasks
        self._judge = CodeJudge(lambda _: world)
        self._failures: dict[Failure, None] = {}  # in order, none twice
        self._succeeded: set[str] = set()  # tools
        self._broken: dict[str, tuple[Call, ToolResult]] = {}  # tool -> its first breakdown
        self._mutants = self._caught = self._left_out = self._num_probes = 0
        self._survivors: list[MutantNote] = []
        self._equivalents: list[MutantNote] = []

    def report(self) -> Report:
        """Do it all."""
        oracles = {task.id: self._play(task, task.oracle, task.answer) for task in self._tasks}
        writes = writes_of(oracles)
        for task in self._tasks:
            self._check_oracle(task, oracles[task.id])
            self._check_kind_and_difficulty(task, oracles[task.id])
            self._check_noop(task)
            self._check_mutants(task, oracles[task.id], writes)
        self._check_share()
        self._check_tools([played.lease for played in oracles.values()])
        self._check_determinism(oracles)
        tools = [tool.name for tool in self._world.tools]
        unreached = (f"{self._name}.{tool}" for tool in tools if tool not in self._succeeded)
        return Report(
            worlds=1,
            tasks=len(self._tasks),
            tools=len(tools),
            failures=tuple(self._failures),
            mutants=self._mutants,
            mutants_caught=self._caught,
            mutants_left_out=self._left_out,
            probes=self._num_probes,
            names=(self._name,),
            unreached=tuple(unreached),
            survivors=tuple(self._survivors),
            equivalents=tuple(self._equivalents),
        )

    def _fail(self, check: str, why: str, task: Task | None = None) -> None:
        failure = Failure(self._name, task.id if task else "", check, why)
        self._failures[failure] = None

    def _play(self, task: Task, calls: Sequence[Call], answer: str) -> Played:
        played = play(self._world, task, calls, answer)
        for call, result in zip(calls, played.results, strict=True):
            self._note(call, result)
        return played

    def _note(self, call: Call, result: ToolResult) -> None:
        if result.error is None:
            self._succeeded.add(call.name)
        elif result.error in ("internal", "timeout"):
            self._broken.setdefault(call.name, (call, result))

    def _verdict(self, task: Task, played: Played, after: str) -> Judged:
        """The code judge's; where it cannot judge, that is the verifier's failure."""
        judged = self._judge.judge(played.trajectory)
        if judged.label is None:
            self._fail("verifier", f"after {after}: {judged.unjudged}", task)
        return judged

    def _check_oracle(self, task: Task, played: Played) -> None:
        for index, (call, result) in enumerate(zip(task.oracle, played.results, strict=True)):
            if result.error is not None:
                why = f"call {index + 1}, {told(call)}, fails ({result.error}): {result.text}"
                self._fail("oracle", why, task)
        shown = _encode(played.changes)
        judged = self._verdict(task, played, "the oracle")
        if judged.label is None:
            return
        if judged.label is not Label.COMPLETED:
            missed = "; ".join(
                f"{finding.name}: expected {finding.expected}, found {finding.found}"
                for finding in failed(judged.findings)
            )
            self._fail("oracle", f"it is judged {judged.label}: {missed}", task)
        self._check_pure(task, played, judged, shown)

    def _check_pure(self, task: Task, played: Played, judged: Judged, shown: bytes) -> None:
        """The verifier must leave alone what it is shown, and say the same when asked again."""
        if self._judge.judge(played.trajectory).findings != judged.findings:
            self._fail("verifier", "it gives other findings when it is asked again", task)
        if _encode(played.changes) != shown:
            self._fail("verifier", "it alters the changes that it is shown", task)
            return
        _, after = self._world.states(played.state)
        if _encode(after.changes) != shown:
            self._fail("verifier", "it alters the state that it is shown", task)

    def _check_kind_and_difficulty(self, task: Task, played: Played) -> None:
        tables = sorted({change.table for change in played.changes})
        if task.kind == "change" and not tables:
            self._fail("kind", "a task of kind 'change' whose oracle changes no row", task)
        if task.kind != "change" and tables:
            why = f"a task of kind {task.kind!r} whose oracle changes rows of {', '.join(tables)}"
            self._fail("kind", why, task)
        points = len(task.oracle) + len(tables)
        if task.difficulty != difficulty_of(points):
            why = (
                f"declared {task.difficulty}, but {len(task.oracle)} calls and {len(tables)} "
                f"changed tables are {points} points, which is {difficulty_of(points)}"
            )
            self._fail("difficulty", why, task)

    def _check_noop(self, task: Task) -> None:
        idle = self._verdict(task, self._play(task, (), ""), "doing nothing")
        if idle.label is Label.COMPLETED:
            self._fail("noop", "doing nothing and saying nothing completes it", task)
        elif task.kind == "change":
            boast = self._verdict(task, self._play(task, (), task.answer), "doing nothing")
            if boast.label is Label.COMPLETED:
                self._fail("noop", "saying that it is done, without doing it, completes it", task)

    def _check_mutants(self, task: Task, oracle: Played, writes: Writes) -> None:
        settings = self._settings
        mutants, left_out = mutants_on(
            self._world, task, oracle, writes, seed=settings.seed, most=settings.max_mutants
        )
        self._left_out += left_out
        for mutant in mutants:
            self._try_mutant(task, oracle, mutant)

    def _try_mutant(self, task: Task, oracle: Played, mutant: Mutant) -> None:
        played = self._play(task, mutant.calls, mutant.answer)
        label = self._verdict(task, played, f"a mutant ({mutant.note})").label
        if is_equivalent(played, oracle):
            why = why_equivalent(played, oracle)
            self._equivalents.append(MutantNote(self._name, task.id, mutant.kind, mutant.note, why))
            return
        self._mutants += 1
        if label is Label.COMPLETED:
            why = difference(played, oracle)
            self._survivors.append(MutantNote(self._name, task.id, mutant.kind, mutant.note, why))
        else:
            self._caught += 1

    def _check_share(self) -> None:
        """Name the tasks whose mutants survive when too many of the world's do."""
        if self._caught >= MIN_CAUGHT * self._mutants:
            return
        for task in self._tasks:
            notes = [note for note in self._survivors if note.task == task.id]
            if notes:
                count = "one mutant is" if len(notes) == 1 else f"{len(notes)} mutants are"
                why = f"{count} completed, as this: {notes[0].mutation}; {notes[0].why}"
                self._fail("mutants", why, task)

    def _check_tools(self, oracle_leases: Sequence[Lease]) -> None:
        """Probe every tool, on the start state and on those that the oracles left."""
        prober = Prober(self._world, self._settings.seed)
        rng = Random(self._settings.seed)
        leases = [self._world.lease(), *oracle_leases]
        states: dict[str, StoredState] = {}
        for tool in self._world.tools:
            for _ in range(self._settings.probes):
                call = prober.call(tool)
                lease = rng.choice(leases).fork()
                result = lease.call(call.name, call.arguments)
                self._num_probes += 1
                self._note(call, result)
                if result.changes:
                    states.setdefault(lease.digest, lease.state())
        for call, result in self._broken.values():
            self._fail("tool", f"{told(call)} breaks it: {result.text}")
        sample = rng.sample(list(states.values()), min(_STATES, len(states)))
        for task in self._tasks:
            self._check_total(task, sample)

    def _check_total(self, task: Task, states: Sequence[StoredState]) -> None:
        """The verifier must take any state, however the agent got there."""
        for state in states:
            before, after = self._world.states(state)
            try:
                self._verifier.run(task, before, after, task.answer)
            except VerifierError as exc:
                self._fail("verifier", f"after a random call: {exc}", task)
                return

    def _check_determinism(self, oracles: dict[str, Played]) -> None:
        for fault in uses_of_chance(self._world.scenario.path / "tools.py"):
            self._fail("determinism", fault)
        if self._twin.template.image != self._world.template.image:
            self._fail("determinism", "two hosts seed databases that differ")
        for task in self._tasks:
            for world, where in ((self._world, "another lease"), (self._twin, "another host")):
                again = play(world, task, task.oracle, task.answer)
                if (why := divergence(oracles[task.id], again)) is not None:
                    self._fail("determinism", f"on {where} {why}", task)
                    break


def main(names: Sequence[str]) -> int:
    """Check the named packages and write the report as JSON; gives the exit status."""
    try:
        report = merged(check_scenario(name) for name in names)
    except UnknownScenario as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
