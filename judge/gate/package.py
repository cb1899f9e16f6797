"""The quality gate of worlds: what a package must prove before agents use it.

    package      its files exist and are valid
    seed         schema and data load without a fault
    tools        tools.py defines valid tools
    verifier     each task's verifier exists, never raises, modifies nothing, and is deterministic
    oracle       every call of the oracle succeeds and passes only keys that the agent can know, and
                 the verifier finds the task completed
    kind         the oracle of a `change` task changes rows, that of another kind changes none; the
                 answer of a `decline` task refuses
    difficulty   the declared difficulty is the measured one
    texts        what instructions, policy and tool descriptions name exists; no task is a copy of
                 another; the policy and the tools have the same limits
    rules        neither the start nor the end of an oracle breaks a rule that scenario.toml has as
                 data
    purposes     the oracle of a generated task has as many purposes as its generated.json says
    noop         doing nothing does not complete a task, nor does claiming that it was done, nor
                 doing it without an answer where the instruction asks a question
    mutants      at least 98 % of the oracles with one mistake are not completed; of each task's,
                 three quarters; none that leaves a write out, makes another task's, or changes a
                 value that the instruction names
    adversaries  no agent without understanding is paid: one that refuses everything, gives every
                 reason, heaps values, pastes what it read, or denies what it did
    dialogue     a user says nothing before it is asked for or due, over all states of the talk; the
                 oracle hears all of it, and without any of its questions it does not complete the
                 task
    criteria     the oracle meets all criteria by code, and doing nothing none; a model that always
                 agrees completes no task. All other checks take its criteria that ask a model for
                 met, and pay nothing for them
    near_miss    each wrong turn of near_misses.toml gets the label that its author expects
    tool         no call that fits a tool's schema breaks the tool; its arguments matter; its
                 refusals are errors; it does what its name promises: a query changes nothing, an
                 effect changes something
    constraint   a call that does not fit the schema is refused, and so is one that would change
                 rows with a key that no row has, or with a quantity below zero
    interface    some tool shows the key that another one needs; tools that a description promises
                 are there; a list that is cut says so; the result of a write shows what changed; a
                 tool whose arguments are all optional needs none; events agree with the status of
                 their record
    determinism  equal calls on two leases and on two hosts give equal results and states; also in
                 two processes, where there are two (see judge.gate.job_pool)

Faults that follow from another fault are not repeated: after the first failing call of an oracle,
nothing else is said about that oracle; a tool that does not exist is one fault, however many calls
and tasks use it.

Everything runs in this process, so the gate is for packages whose code is trusted, or for a
confined process (judge.gate.worker). Nothing is printed. A mutant that ends in the oracle's state
with the oracle's answer is not a visible mistake: it is *equivalent*, listed separately, and not
counted among the mutants.

Not covered: tools that misread a valid call, or lack a rule, without breaking, where no oracle
makes that call; amounts that differ between instruction and oracle; wrong numbers that answer and
verifier share. tests.devtools.defects.study measures which defects are caught.
"""

import re
import sys
from collections.abc import Mapping, Sequence, Set
from contextlib import closing
from pathlib import Path

import msgspec

from rehearsal_room.envpool.core.errors import SeedError, ToolsetError
from rehearsal_room.envpool.inprocess.toolset import load
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.envpool.store.blocking import BlockingWorld
from rehearsal_room.harness.core.events import Judged
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.code.runners import ForgivingRunner, InProcessRunner
from rehearsal_room.judge.core.criteria import without_asking
from rehearsal_room.judge.core.verifier import Verifier
from rehearsal_room.judge.gate.checks.code import code_faults, sources_of, unknown_names
from rehearsal_room.judge.gate.checks.interface import (
    contradicting_events,
    cut_lists,
    needy_tools,
    silent_writes,
)
from rehearsal_room.judge.gate.checks.key_provenance import known_from_the_start, unknown_keys
from rehearsal_room.judge.gate.checks.promises import missing_tools
from rehearsal_room.judge.gate.checks.recounts import purposes_in, recount_faults
from rehearsal_room.judge.gate.checks.row_rules import broken_rules
from rehearsal_room.judge.gate.checks.shown_ids import ShownResult, hidden_ids
from rehearsal_room.judge.gate.checks.tasks import (
    check_again,
    check_disturbed,
    check_missing_tools,
    check_share,
    check_task,
    check_total,
)
from rehearsal_room.judge.gate.checks.texts import (
    duplicate_tasks,
    known_of,
    missing_in,
    unfounded_in,
)
from rehearsal_room.judge.gate.checks.tools import ToolChecks, unused
from rehearsal_room.judge.gate.core.near_duplicates import features_of
from rehearsal_room.judge.gate.core.report import WorldGateReport, failed_report, merge_reports
from rehearsal_room.judge.gate.core.task_runner import (
    DEFAULT_SETTINGS,
    GateLog,
    GateSettings,
    TaskRunner,
)
from rehearsal_room.judge.playback.attempts import writes_of
from rehearsal_room.judge.playback.playback import Fact, Played, divergence, play
from rehearsal_room.judge.playback.undoing import undoable_writes
from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.core.dialogue import UserAutomaton
from rehearsal_room.scenarios.errors import PackageError, UnknownScenario
from rehearsal_room.scenarios.format import Scenario, Task
from rehearsal_room.scenarios.generate.output_folder import WorldRecord, record_of
from rehearsal_room.scenarios.near_misses import NearMiss, near_misses_of

_SNAKE = re.compile(r"\w+")  # names of tables and columns, and the words of their constraints
Tables = Mapping[str, Sequence[Row]]  # the seed rows, by table
Sources = Mapping[str, str]  # the texts of tools.py and verify.py, by file name


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one check: the report, and what worlds and processes are compared by."""

    report: WorldGateReport
    facts: dict[str, list[Fact]] = {}  # by task: the results of its oracle's calls
    features: tuple[int, ...] = ()  # see judge.gate.core.near_duplicates


def check_scenario(
    source: str | Path | Scenario, settings: GateSettings = DEFAULT_SETTINGS
) -> WorldGateReport:
    """Check one package, given by name, by folder or as a Scenario. Raises UnknownScenario."""
    try:
        scenario = source if isinstance(source, Scenario) else find(str(source))
    except PackageError as exc:
        return failed_report(Path(str(source)).name, "package", str(exc))
    return inspect(scenario, settings).report


def inspect(
    scenario: Scenario,
    settings: GateSettings = DEFAULT_SETTINGS,
    sources: Sources | None = None,
    near_misses: Sequence[NearMiss] = (),
) -> CheckResult:
    """Check one package. `sources` are the texts of its code; None: they and the near misses are
    read from its folder."""
    scenario = without_asking(scenario)
    if sources is None:
        try:
            near_misses = near_misses_of(scenario)
        except PackageError as exc:
            return CheckResult(failed_report(scenario.name, "package", str(exc)))
    try:
        texts = sources_of(scenario.path) if sources is None else sources
        tools = load(scenario, texts["tools.py"])
        with closing(HostedScenario(scenario, tools=tools)) as world:
            fresh_tools = load(scenario, texts["tools.py"], schemas=False)
            with closing(HostedScenario(scenario, tools=fresh_tools)) as second:
                verifier = Verifier(scenario, texts["verify.py"])
                return _inspect(world, second, verifier, texts, settings, near_misses)
    except SeedError as exc:
        return CheckResult(failed_report(scenario.name, "seed", str(exc)))
    except ToolsetError as exc:
        return CheckResult(failed_report(scenario.name, "tools", str(exc)))
    except (PackageError, OSError) as exc:
        return CheckResult(failed_report(scenario.name, "verifier", str(exc)))


def inspect_server(
    world: BlockingWorld, second: BlockingWorld, settings: GateSettings = DEFAULT_SETTINGS
) -> CheckResult:
    """Check the tasks of a world of an MCP server, which two processes of the server host. Its
    tools are somebody else's: they are probed for writes that no task wants, and not judged."""
    scenario = world.scenario
    try:
        near_misses = near_misses_of(scenario)
        verifier = Verifier(scenario, (scenario.path / "verify.py").read_text(encoding="utf-8"))
    except (PackageError, OSError) as exc:
        return CheckResult(failed_report(scenario.name, "verifier", str(exc)))
    log, of_tools = GateLog(scenario.name), GateLog(scenario.name)
    judge = CodeJudge(scenario, ForgivingRunner(InProcessRunner(world, verifier), world))
    runner = TaskRunner(world, judge, log)
    oracles = {task.id: runner.play_oracle(task) for task in scenario.tasks}
    check_missing_tools(log, scenario.tasks, oracles, [tool.name for tool in world.tools])
    rows = world.dump(world.template.overlay())
    for task in scenario.tasks:
        for fault in missing_in(task, known_of(scenario, rows, ())):
            log.fail("texts", fault, task)
    tools = ToolChecks(world, of_tools, settings, oracles)
    verdicts = _check_each(runner, settings, near_misses, oracles)
    tools.probe()
    _check_left(runner, verifier, settings, oracles, tools, verdicts)
    log.probes += of_tools.probes
    log.succeeded |= of_tools.succeeded
    for task in scenario.tasks:
        repeated = play(second, task, task.oracle, task.answer)
        if (why := divergence(oracles[task.id], repeated.facts)) is not None:
            log.fail("determinism", f"in another process of the server {why}", task)
    return _result(log, world, None, oracles)


def facts_of(scenario: Scenario, sources: Sources | None = None) -> dict[str, list[Fact]]:
    """The results of the oracles' calls in this process, by task; empty where the world cannot be
    hosted."""
    try:
        source = None if sources is None else sources["tools.py"]
        tools = load(scenario, source, schemas=False)
        with closing(HostedScenario(scenario, tools=tools)) as world:
            played = {task.id: play(world, task, task.oracle, "") for task in scenario.tasks}
            return {task: oracle.facts for task, oracle in played.items()}
    except (SeedError, ToolsetError, PackageError):
        return {}


def _inspect(
    world: BlockingWorld,
    second: BlockingWorld,
    verifier: Verifier,
    sources: Sources,
    settings: GateSettings,
    near_misses: Sequence[NearMiss],
) -> CheckResult:
    """Make every check of one scenario, which is hosted twice."""
    scenario, tasks = world.scenario, world.scenario.tasks
    log, record = GateLog(scenario.name), record_of(scenario.path)
    judge = CodeJudge(scenario, ForgivingRunner(InProcessRunner(world, verifier), world))
    runner = TaskRunner(world, judge, log)
    oracles = {task.id: runner.play_oracle(task) for task in tasks}
    missing = check_missing_tools(log, tasks, oracles, [tool.name for tool in world.tools])
    _check_texts(log, world, oracles, missing)
    _recount(log, tasks, record, oracles)
    for fault, task in broken_rules(world, oracles):
        log.fail("rules", fault, task)
    tools = ToolChecks(world, log, settings, oracles)
    verdicts = _check_each(runner, settings, near_misses, oracles)
    tools.check()
    _check_shown(log, world, oracles, tools)
    _check_left(runner, verifier, settings, oracles, tools, verdicts)
    tools.check_again(second)
    _check_determinism(log, world, second, sources, oracles)
    return _result(log, world, record, oracles)


def _check_each(
    runner: TaskRunner,
    settings: GateSettings,
    near_misses: Sequence[NearMiss],
    oracles: Mapping[str, Played],
) -> dict[str, Judged]:
    """Check the tasks; returns the verdicts on their oracles, by task id."""
    world = runner.world
    writes, undoable = writes_of(oracles), undoable_writes(world, oracles.values())
    verdicts = {
        task.id: check_task(runner, task, oracles[task.id], writes, undoable, settings)
        for task in world.scenario.tasks
    }
    for miss in near_misses:
        runner.try_near_miss(miss)
    return verdicts


def _check_left(
    runner: TaskRunner,
    verifier: Verifier,
    settings: GateSettings,
    oracles: Mapping[str, Played],
    tools: ToolChecks,
    verdicts: Mapping[str, Judged],
) -> None:
    """Check the verifiers on the states and writes that probes of the tools found."""
    tasks, states = runner.world.scenario.tasks, tools.states()
    for task in tasks:
        disturbing = tools.disturbing(task.id)
        check_disturbed(runner, task, oracles[task.id], disturbing, settings)
        check_total(runner, verifier, task, states)
    check_share(runner.log, tasks)
    for task in tasks:
        check_again(runner, task, oracles[task.id], verdicts[task.id])


def _result(
    log: GateLog,
    world: BlockingWorld,
    record: WorldRecord | None,
    oracles: Mapping[str, Played],
) -> CheckResult:
    report = log.report(
        tasks=len(world.scenario.tasks),
        tools=[tool.name for tool in world.tools],
        unused=unused(world.tools, (played.calls for played in oracles.values())),
    )
    facts = {task: played.facts for task, played in oracles.items()}
    tables = {name: table.columns for name, table in world.template.tables.items()}
    words = record.words if record else None
    return CheckResult(report, facts, features_of(world.scenario, tables, world.tools, words))


def _check_texts(
    log: GateLog, world: BlockingWorld, oracles: Mapping[str, Played], missing: Set[str]
) -> None:
    scenario, fail = world.scenario, log.fail
    rows = world.dump(world.template.overlay())
    known = known_of(scenario, rows, (tool.description for tool in world.tools))
    start = known_from_the_start(world)
    for task in scenario.tasks:
        lines = task.user.lines if isinstance(task.user, UserAutomaton) else ()
        for text in (task.instruction, *(line.text for line in lines)):
            for fault in missing_in(msgspec.structs.replace(task, instruction=text), known):
                fail("texts", fault, task)
        if task.kind == "question":
            for fault in unfounded_in(task, oracles[task.id].results, known):
                fail("texts", fault, task)
        for fault in unknown_keys(task, oracles[task.id], start):
            fail("oracle", fault, task)
    for task, first in duplicate_tasks(scenario.tasks):
        fail(
            "texts",
            f"it is a copy of task {first.id}: the same instruction, calls and answer",
            task,
        )
    names = {*_SNAKE.findall(scenario.schema_sql), *missing}
    names.update(str(value) for table in rows.values() for row in table for value in row.values())
    for fault in unknown_names(scenario.rules, world.tools, names):
        fail("texts", fault)
    _check_interface(log, world, oracles, rows)


def _check_interface(
    log: GateLog, world: BlockingWorld, oracles: Mapping[str, Played], tables: Tables
) -> None:
    calls = [call for played in oracles.values() for call in played.calls]
    for faults in (
        cut_lists(world, calls),
        silent_writes(oracles.values()),
        needy_tools(world),
        missing_tools(world.tools),
        contradicting_events(tables),
    ):
        for fault in faults:
            log.fail("interface", fault)


def _check_shown(
    log: GateLog, world: BlockingWorld, oracles: Mapping[str, Played], tools: ToolChecks
) -> None:
    """Check that the tools show the keys that they need."""
    results = [
        ShownResult(call.name, result.text)
        for played in oracles.values()
        for call, result in zip(played.calls, played.results, strict=True)
        if result.error is None and not result.changes
    ]
    rows = world.dump(world.template.overlay())
    for fault in hidden_ids(world, rows, [*results, *tools.results()]):
        log.fail("interface", fault)


def _recount(
    log: GateLog,
    tasks: Sequence[Task],
    record: WorldRecord | None,
    oracles: Mapping[str, Played],
) -> None:
    """Count the purposes of each task, and compare them with what the generator wrote."""
    found = {task.id: purposes_in(task, oracles[task.id]) for task in tasks}
    log.purposes.update(one.count for one in found.values())
    by_id = {task.id: task for task in tasks}
    if record is not None:
        for task, fault in recount_faults(record, found):
            log.fail("purposes", fault, by_id[task])


def _check_determinism(
    log: GateLog,
    world: BlockingWorld,
    second: BlockingWorld,
    sources: Sources,
    oracles: Mapping[str, Played],
) -> None:
    names = {tool.name for tool in world.tools}
    for check, fault in code_faults(world.scenario, sources, names):
        log.fail(check, fault)
    if second.template.image != world.template.image:
        log.fail("determinism", "two hosts seed different databases")
    for task in world.scenario.tasks:
        for host, where in ((world, "another lease"), (second, "another host")):
            repeated = play(host, task, task.oracle, task.answer)
            if (why := divergence(oracles[task.id], repeated.facts)) is not None:
                log.fail("determinism", f"on {where} {why}", task)
                break


def main(names: Sequence[str]) -> int:
    """Check the named packages, write the report as JSON, and return the exit status."""
    try:
        report = merge_reports(check_scenario(name) for name in names)
    except UnknownScenario as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
