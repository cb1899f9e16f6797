"""The quality gate of worlds: what a package must prove before an agent meets it.

    package      its files are there, and say what they must
    seed         schema and data load without a fault
    tools        tools.py can be told as tools
    verifier     each task's verifier is there, never raises, changes nothing, repeats itself
    oracle       every call of the oracle succeeds and passes only keys that were told before, and
                 the verifier finds the task completed
    kind         a `change` task's oracle changes rows, that of another kind changes none; to
                 decline is to refuse in words
    difficulty   the declared word is the measured one
    texts        what an instruction names is there, what policy and descriptions name, too; no
                 task is there twice; the policy tells no other limits than the tools have
    noop         doing nothing does not complete a task, nor does only saying that it was done, nor
                 doing it without a word where something is asked
    mutants      at least 98 % of the oracles with one mistake are not completed; of a task, three
                 quarters; none that leaves a write out, makes another task's, or alters what the
                 instruction names
    tool         no call that fits a tool's schema breaks the tool; its arguments matter; what it
                 refuses is an error; it does what its name says: a question changes nothing, a
                 deed something
    constraint   a call that does not fit the schema is refused, and so is one that would change
                 rows with a key that no row has, or with a quantity below zero
    determinism  equal calls on two leases, in two hosts, give equal results and states; and in two
                 processes, where there are two (see judge.gate.job_pool)

Everything runs in this process, so the gate is for packages whose code is trusted, or for a process
that is confined (judge.gate.worker). Nothing is printed. A mutant that ends in the oracle's very
state with the oracle's answer is no mistake that could be seen: it is *equivalent*, listed apart,
and not counted among the mutants.

Not covered: tools that misread a valid call, or lack a rule, without breaking, where no oracle
makes that call; amounts that instruction and oracle see otherwise; wrong numbers on which answer
and verifier agree. judge.defects.study measures what is caught.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from envpool.core.errors import SeedError, ToolsetError
from envpool.inprocess.toolset import load
from envpool.inprocess.world import HostedScenario
from judge.code.code_judge import CodeJudge
from judge.code.runners import InProcessRunner
from judge.core.verifier import Verifier
from judge.gate.context import DEFAULT_SETTINGS, GateSettings, Notes, Stage
from judge.gate.key_provenance import known_from_the_start, untold
from judge.gate.near_duplicates import features_of
from judge.gate.report import Report, merged, refused
from judge.gate.static_checks import code_faults, sources_of, unknown_names
from judge.gate.tasks import (
    check_again,
    check_disturbed,
    check_share,
    check_task,
    check_total,
)
from judge.gate.texts import asked_twice, known_of, missing_in, unfounded_in
from judge.gate.tools import ToolChecks, unused
from judge.playback.attempts import writes_of
from judge.playback.playback import Fact, Played, divergence, play
from scenarios.catalogue import find
from scenarios.errors import PackageError, UnknownScenario
from scenarios.format import Scenario

_SNAKE = re.compile(r"\w+")  # names of tables and columns, and the words of their constraints
Sources = Mapping[str, str]  # the texts of tools.py and verify.py, by file name


class Checked(msgspec.Struct, frozen=True):
    """All that one check gives: the report, and what worlds and processes are compared by."""

    report: Report
    facts: dict[str, list[Fact]] = {}  # by task: what its oracle's calls gave
    features: tuple[int, ...] = ()  # see judge.gate.near_duplicates


def check_scenario(
    source: str | Path | Scenario, settings: GateSettings = DEFAULT_SETTINGS
) -> Report:
    """Every check on one package, given by name, by folder or as read. Raises UnknownScenario."""
    try:
        scenario = source if isinstance(source, Scenario) else find(str(source))
    except PackageError as exc:
        return refused(Path(str(source)).name, "package", str(exc))
    return inspect(scenario, settings).report


def inspect(
    scenario: Scenario,
    settings: GateSettings = DEFAULT_SETTINGS,
    sources: Sources | None = None,
) -> Checked:
    """Every check on one package. `sources` are its code where the folder is not to be read."""
    try:
        given = sources_of(scenario.path) if sources is None else sources
        tools = load(scenario, given["tools.py"])
        with closing(HostedScenario(scenario, tools=tools)) as world:
            again = load(scenario, given["tools.py"])
            with closing(HostedScenario(scenario, tools=again)) as twin:
                verifier = Verifier(scenario, given["verify.py"])
                return _Inspection(world, twin, verifier, given, settings).checked()
    except SeedError as exc:
        return Checked(refused(scenario.name, "seed", str(exc)))
    except ToolsetError as exc:
        return Checked(refused(scenario.name, "tools", str(exc)))
    except (PackageError, OSError) as exc:
        return Checked(refused(scenario.name, "verifier", str(exc)))


def facts_of(scenario: Scenario, sources: Sources | None = None) -> dict[str, list[Fact]]:
    """What the oracles' calls give here, by task; nothing where the world cannot be hosted."""
    try:
        tools = None if sources is None else load(scenario, sources["tools.py"])
        with closing(HostedScenario(scenario, tools=tools)) as world:
            played = {task.id: play(world, task, task.oracle, "") for task in scenario.tasks}
            return {task: one.facts for task, one in played.items()}
    except (SeedError, ToolsetError, PackageError):
        return {}


class _Inspection:
    """One gate's work on one scenario, hosted twice."""

    def __init__(
        self,
        world: HostedScenario,
        twin: HostedScenario,
        verifier: Verifier,
        sources: Sources,
        settings: GateSettings,
    ) -> None:
        self._world = world
        self._twin = twin
        self._verifier = verifier
        self._sources = sources
        self._settings = settings
        self._tasks = world.scenario.tasks
        self._notes = Notes(world.scenario.name)
        judge = CodeJudge(world.scenario, InProcessRunner(world, verifier))
        self._stage = Stage(world, judge, self._notes)

    def checked(self) -> Checked:
        """Do it all."""
        stage, notes = self._stage, self._notes
        oracles = {task.id: stage.play(task, task.oracle, task.answer) for task in self._tasks}
        self._check_texts(oracles)
        writes = writes_of(oracles)
        verdicts = {
            task.id: check_task(stage, task, oracles[task.id], writes, self._settings)
            for task in self._tasks
        }
        tools = ToolChecks(self._world, notes, self._settings, oracles)
        tools.check()
        states = tools.states()
        for task in self._tasks:
            disturbing = tools.disturbing(task.id)
            check_disturbed(stage, task, oracles[task.id], disturbing, self._settings)
            check_total(stage, self._verifier, task, states)
        check_share(notes, self._tasks)
        for task in self._tasks:
            check_again(stage, task, oracles[task.id], verdicts[task.id])
        tools.check_again(self._twin)
        self._check_determinism(oracles)
        return self._checked(oracles)

    def _checked(self, oracles: Mapping[str, Played]) -> Checked:
        report = self._notes.report(
            tasks=len(self._tasks),
            tools=[tool.name for tool in self._world.tools],
            unused=unused(self._world.tools, (played.calls for played in oracles.values())),
        )
        facts = {task: played.facts for task, played in oracles.items()}
        tables = {name: table.columns for name, table in self._world.template.tables.items()}
        features = features_of(self._world.scenario, tables, self._world.tools)
        return Checked(report, facts, features)

    def _check_texts(self, oracles: Mapping[str, Played]) -> None:
        world, fail = self._world, self._notes.fail
        scenario, rows = world.scenario, world.dump(world.template.overlay())
        known = known_of(scenario, rows, (tool.description for tool in world.tools))
        start = known_from_the_start(world)
        for task in self._tasks:
            for fault in missing_in(task, known):
                fail("texts", fault, task)
            if task.kind == "question":
                for fault in unfounded_in(task, oracles[task.id].results, known):
                    fail("texts", fault, task)
            for fault in untold(task, oracles[task.id], start):
                fail("oracle", fault, task)
        for task, first in asked_twice(self._tasks):
            fail("texts", f"it asks for the same as {first.id}, with the same calls", task)
        names = set(_SNAKE.findall(scenario.schema_sql))
        names.update(
            str(value) for table in rows.values() for row in table for value in row.values()
        )
        for fault in unknown_names(scenario.rules, world.tools, names):
            fail("texts", fault)

    def _check_determinism(self, oracles: Mapping[str, Played]) -> None:
        fail = self._notes.fail
        names = {tool.name for tool in self._world.tools}
        for check, fault in code_faults(self._world.scenario, self._sources, names):
            fail(check, fault)
        if self._twin.template.image != self._world.template.image:
            fail("determinism", "two hosts seed databases that differ")
        for task in self._tasks:
            for world, where in ((self._world, "another lease"), (self._twin, "another host")):
                again = play(world, task, task.oracle, task.answer)
                if (why := divergence(oracles[task.id], again.facts)) is not None:
                    fail("determinism", f"on {where} {why}", task)
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
