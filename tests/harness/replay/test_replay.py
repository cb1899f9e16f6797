"""A replay proves that a log holds, and reports where it does not."""

import io
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import (
    EpisodeEnded,
    EpisodeStarted,
    Judged,
    Label,
    ModelJudgement,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Act, AgentCall, Reply
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.registry import NAMES, dialect_of
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.harness.policies.base import Agent, Assignment, Policy
from rehearsal_room.harness.policies.fixed_replies import FixedRepliesAgent, replies_of
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.replay.episode import LoggedCall, ReplayDifference
from rehearsal_room.harness.replay.packages import missing_package
from rehearsal_room.harness.replay.report import render_replay, render_what_if
from rehearsal_room.harness.replay.run import (
    Divergence,
    EpisodeChange,
    MissingTask,
    ReplayReport,
    WhatIfReport,
    replay,
    what_if,
)
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import plan_of
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.scenarios.format import Call, Scenario, read
from tests.support.immediate import finished
from tests.support.mini_world import variant
from tests.support.paths import LIBRARY

Change = Callable[[Record], Record | None]
LEND_EMMA = Call("lend_book", {"member_id": 3, "book_id": 21})
LEND_ULYSSES = Call("lend_book", {"member_id": 3, "book_id": 22, "days": 14})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class FixedReplies:
    """A policy whose episodes all have these replies."""

    name = "fixed-replies"

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = tuple(replies)

    def agent(self, assignment: Assignment) -> Agent:
        return FixedRepliesAgent(self._replies)


async def _run(
    folder: Path,
    *,
    world: Path = LIBRARY,
    tasks: Sequence[str] = (),
    dialect: str = "native",
    history: str = "last:2",
    replies: Sequence[Reply] = (),
    episodes: int | None = None,
) -> Scenario:
    """A run of the library's tasks (default: all), with these replies (default: the oracle's)."""
    scenario = read(world)
    chosen = [(scenario, task) for task in scenario.tasks if not tasks or task.id in tasks]
    spoken = dialect_of(dialect)
    policy: Policy = FixedReplies(replies) if replies else OraclePolicy(spoken)
    with closing(LocalPool()) as pool:
        parts = RunParts(
            pool=pool,
            policy=policy,
            dialect=spoken,
            history=parse_history(history),
            format=FormatSettings(stop=False),
            limits=Limits(),
            judge=ScenarioJudges(pool, [scenario]),
        )
        plan = plan_of(chosen, episodes=episodes, group_size=1, seed=0)
        await run_session(folder, plan, parts, concurrency=8, meters=Meters())
    return scenario


def _replayed(
    folder: Path, scenario: Scenario, *, progress: Callable[[int], None] | None = None
) -> ReplayReport:
    with open_reader(folder) as reader, closing(LocalPool()) as pool:
        return finished(replay(reader, pool, lambda name, package: scenario, progress=progress))


def _asked(folder: Path, changed: Scenario) -> WhatIfReport:
    with open_reader(folder) as reader, closing(LocalPool()) as pool:
        return finished(what_if(reader, pool, changed, ScenarioJudges(pool, [changed]).verdict))


async def _rewritten(folder: Path, copy: Path, change: Change) -> Path:
    """A log with the same records, each as `change` makes it; None leaves one out."""
    with open_reader(folder) as reader:
        worlds = list(reader.scenarios().values())
        records = [record for _, record in reader.records_after(0, limit=1_000_000)]
    async with open_log(copy) as log:
        for world in worlds:
            log.add_scenario(world)
        for record in records:
            if (changed := change(record)) is not None:
                log.append(changed)
    return copy


def _with(record: Record, **fields: Any) -> Record:
    """The record with changed fields in its event."""
    return msgspec.structs.replace(record, event=msgspec.structs.replace(record.event, **fields))


def _on_step(number: int, edit: Callable[[StepTaken], dict[str, Any]]) -> Change:
    """A change to one step of the first episode; its start is record 0."""

    def change(record: Record) -> Record:
        event = record.event
        if (record.episode, record.seq) != ("e000000", number + 1):
            return record
        assert isinstance(event, StepTaken)
        return _with(record, **edit(event))

    return change


def _on_end(edit: Callable[[EpisodeEnded], dict[str, Any]]) -> Change:
    """A change to the first episode's end."""

    def change(record: Record) -> Record:
        event = record.event
        if record.episode != "e000000" or not isinstance(event, EpisodeEnded):
            return record
        return _with(record, **edit(event))

    return change


def _result(step: StepTaken, **fields: Any) -> dict[str, Any]:
    """Changed fields in the step's first result."""
    first = msgspec.structs.replace(step.results[0], **fields)
    return {"results": (first, *step.results[1:])}


def _divergence(
    what: Any, step: int | None, expected: str, found: str, **fields: Any
) -> Divergence:
    """A divergence of the first episode, which lends two books."""
    return Divergence(
        "e000000",
        "library",
        "lend-two",
        what,
        step,
        fields.get("call_index"),
        fields.get("call"),
        expected,
        found,
    )


def _broken(dialect: Dialect) -> Reply:
    """A reply that the dialect cannot read."""
    if dialect.name in ("native", "tau2"):
        return Reply("Hm.", (AgentCall("get_member", "no json", "x"),), "tool_calls")
    return Reply("<tool_call>\nno json\n</tool_call>")


def _mixed_replies(dialect: Dialect) -> list[Reply]:
    """An episode with every kind of call (successful, refused, with wrong arguments, unknown), a
    format error, and parallel calls where the dialect has them."""
    calls = [
        Call("get_member", {"member_id": 99}),
        Call("get_member", {"member": "Ben"}),
        Call("fly_away", {}),
        Call("lend_book", {"member_id": 4, "book_id": 21}),
    ]
    parallel = [LEND_EMMA, LEND_ULYSSES]
    *turns, last = replies_of(dialect, calls, "Emma is due on 2026-04-04.")
    turns.append(_broken(dialect))
    one_a_turn = dialect.name.startswith("awm")
    for group in [[call] for call in parallel] if one_a_turn else [parallel]:
        turns.append(dialect.write(group, "", turn=len(turns)))
    return [*turns, last]


@pytest.mark.parametrize("history", ["full", "last:2", "tokens:900"])
@pytest.mark.parametrize("dialect", NAMES)
async def test_a_run_replays_in_every_dialect(tmp_path: Path, dialect: str, history: str) -> None:
    """Refused, unknown, malformed and parallel calls replay with equal windows and states; calls
    that the dialect answers itself are not counted."""
    replies = _mixed_replies(dialect_of(dialect))
    scenario = await _run(
        tmp_path, tasks=["lend-two"], dialect=dialect, history=history, replies=replies, episodes=3
    )

    with open_reader(tmp_path) as reader:
        steps = reader.trajectory("e000000").steps
    errors = [result.error for step in steps for result in step.results if result.digest]
    assert errors == ["refused", "arguments", "unknown_tool", "refused", None, None]
    assert len(steps) == len(replies)
    assert _replayed(tmp_path, scenario) == ReplayReport(3, 3 * len(steps), 18, (), 0, 0)


async def test_oracles_of_every_task_replay(tmp_path: Path) -> None:
    """A run of all tasks, several times each, replays; progress counts its episodes."""
    scenario = await _run(tmp_path, episodes=30)
    calls = 5 * sum(len(task.oracle) for task in scenario.tasks)
    done: list[int] = []

    report = _replayed(tmp_path, scenario, progress=done.append)

    assert report == ReplayReport(30, calls + 30, calls, (), 0, 0)
    assert done == list(range(1, 31))


async def test_a_tampered_result_is_named(tmp_path: Path) -> None:
    """Another text, error, digest or changed row in a logged result is found at its call."""
    scenario = await _run(tmp_path / "run", tasks=["lend-two"])
    call = LoggedCall("lend_book", LEND_EMMA.arguments)
    text = '{"loan_id":305,"due_on":"2026-04-04"}'
    book = "books 21: on_shelf 2 -> 1; loans 305: new id 305, member_id 3, book_id 21, lent_on"
    with open_reader(tmp_path / "run") as reader:
        logged = reader.trajectory("e000000").steps[4].results[0]
    assert logged.text == text

    async def found(name: str, **fields: Any) -> Divergence:
        change = _on_step(4, lambda step: _result(step, **fields))
        copy = await _rewritten(tmp_path / "run", tmp_path / name, change)
        report = _replayed(copy, scenario)
        assert report.episodes == 1
        (divergence,) = report.divergences
        return divergence

    other = text.replace("04-04", "04-05")
    at_call = {"call_index": 0, "call": call}
    assert await found("text", text=other) == _divergence("text", 4, other, text, **at_call)
    assert await found("error", error="refused") == _divergence(
        "error", 4, f"refused: {text}", f"success: {text}", **at_call
    )
    assert await found("digest", digest="0" * 32) == _divergence(
        "digest", 4, "0" * 32, logged.digest, **at_call
    )
    changes = await found("changes", changes=())
    assert (changes.what, changes.step, changes.expected) == ("changes", 4, "no row")
    assert changes.found.startswith(book)


async def test_a_tampered_call_is_named(tmp_path: Path) -> None:
    """Other arguments in a logged call lead to another result there."""
    scenario = await _run(tmp_path / "run", tasks=["lend-two"])
    act = Act((AgentCall("lend_book", {"member_id": 3, "book_id": 21, "days": 2}, "c4-0"),))
    change = _on_step(4, lambda step: {"decision": act})
    report = _replayed(await _rewritten(tmp_path / "run", tmp_path / "copy", change), scenario)

    (divergence,) = report.divergences
    assert (divergence.what, divergence.step, divergence.call_index) == ("text", 4, 0)
    assert divergence.call == LoggedCall("lend_book", {"member_id": 3, "book_id": 21, "days": 2})
    assert divergence.found == '{"loan_id":305,"due_on":"2026-03-16"}'


async def test_a_tampered_window_is_named(tmp_path: Path) -> None:
    """The oldest turn that was shown is computed again at each step."""
    scenario = await _run(tmp_path / "run", tasks=["lend-two"], history="last:2")
    change = _on_step(5, lambda step: {"first_turn": 0})
    report = _replayed(await _rewritten(tmp_path / "run", tmp_path / "copy", change), scenario)

    assert report.divergences == (_divergence("window", 5, "from turn 0", "from turn 3"),)


async def test_another_history_policy_is_counted(tmp_path: Path) -> None:
    """Windows of a history window with another fingerprint are not compared."""
    scenario = await _run(tmp_path / "run", tasks=["lend-two"])

    def change(record: Record) -> Record:
        if isinstance(record.event, EpisodeStarted):
            return _with(record, fingerprint="f" * 16)
        return _with(record, first_turn=9) if isinstance(record.event, StepTaken) else record

    report = _replayed(await _rewritten(tmp_path / "run", tmp_path / "copy", change), scenario)
    assert (report.divergences, report.windows_unchecked) == ((), 1)


@pytest.mark.parametrize("history", ["full", "last:2"])
@pytest.mark.parametrize("step", range(6))
async def test_a_missing_step_is_named(tmp_path: Path, step: int, history: str) -> None:
    """A call that was removed from the log is reported at its position, also a look-up."""
    scenario = await _run(tmp_path / "run", tasks=["lend-two"], history=history)

    def change(record: Record) -> Record | None:
        return None if record.seq == step + 1 else record

    report = _replayed(await _rewritten(tmp_path / "run", tmp_path / "copy", change), scenario)
    (divergence,) = report.divergences
    if step < 5:
        later = f"call c{step + 1}-0", f"call c{step}-0"
        assert (divergence.what, divergence.expected, divergence.found) == ("step", *later)
        assert divergence.step == step
    elif history == "full":  # the answer is now at the position of the last call
        assert divergence == _divergence("step", 6, "7 steps", "6 steps")
    else:
        assert divergence == _divergence("window", 5, "from turn 4", "from turn 3")


async def test_a_result_too_few_is_named(tmp_path: Path) -> None:
    """A missing result of a call is reported."""
    scenario = await _run(tmp_path / "run", tasks=["lend-two"])
    change = _on_step(2, lambda step: {"results": ()})
    report = _replayed(await _rewritten(tmp_path / "run", tmp_path / "copy", change), scenario)

    assert report.divergences == (_divergence("results", 2, "0 results", "1 calls"),)


async def test_another_start_is_named(tmp_path: Path) -> None:
    """An episode that began in another state is reported before its first step."""
    scenario = await _run(tmp_path / "run", tasks=["lend-two"])

    def change(record: Record) -> Record:
        return _with(record, start_digest="0" * 32) if record.seq == 0 else record

    report = _replayed(await _rewritten(tmp_path / "run", tmp_path / "copy", change), scenario)
    (divergence,) = report.divergences
    assert (divergence.what, divergence.step, divergence.expected) == ("start", None, "0" * 32)


@pytest.mark.slow
async def test_every_damaged_page_of_a_final_state_is_found(tmp_path: Path) -> None:
    """A byte flipped in a stored page, a page left out or added, another size, digest or
    template: each is a divergence of that episode, and of no other."""
    scenario = await _run(tmp_path / "run", tasks=["lend-two"], episodes=2)
    with open_reader(tmp_path / "run") as reader:
        ended = reader.trajectory("e000000").ended
    assert ended is not None and ended.state is not None
    state = ended.state
    damaged: list[dict[str, Any]] = []
    for number, page in state.pages.items():
        for offset in (0, 10, len(page) // 2, len(page) - 1):
            other = page[:offset] + bytes([page[offset] ^ 1]) + page[offset + 1 :]
            damaged.append({"pages": {**state.pages, number: other}})
        damaged.append({"pages": {n: p for n, p in state.pages.items() if n != number}})
        damaged.append({"pages": {**state.pages, number: page[:100]}})
    damaged += [
        {"pages": {**state.pages, state.num_pages + 1: b"x" * 1024}},
        {"num_pages": state.num_pages + 1},
        {"num_pages": 1},
        {"digest": "0" * 32},
        {"digest": "no digest"},
        {"template": "0" * 32},
    ]
    for number, fields in enumerate(damaged):
        other_state = msgspec.structs.replace(state, **fields)
        change = _on_end(lambda _, changed=other_state: {"state": changed})  # type: ignore[misc]
        copy = await _rewritten(tmp_path / "run", tmp_path / str(number), change)
        report = _replayed(copy, scenario)
        found = [(d.episode, d.what, d.step) for d in report.divergences]
        assert found == [("e000000", "state", None)], fields


async def test_the_rows_of_another_final_state_are_reported(tmp_path: Path) -> None:
    """Where another state is stored, the rows that differ are reported."""
    scenario = await _run(tmp_path / "run", tasks=["lend-two"])
    with closing(LocalPool()) as pool:
        lease = pool.world(scenario).lease()
        for call in (LEND_EMMA, Call("lend_book", {"member_id": 3, "book_id": 22, "days": 7})):
            assert not lease.call(call.name, call.arguments).is_error
        state = lease.state()
    change = _on_end(lambda _: {"state": state})
    report = _replayed(await _rewritten(tmp_path / "run", tmp_path / "copy", change), scenario)

    sides = ('loans 306: due_on "2026-03-21"', 'loans 306: due_on "2026-03-28"')
    assert report.divergences == (_divergence("state", None, *sides),)


async def test_episodes_without_an_end_are_left_out(tmp_path: Path) -> None:
    """A cut-off episode is counted; it is not replayed and is not a divergence."""
    scenario = await _run(tmp_path / "run", tasks=["lend-two", "overdue"])

    def change(record: Record) -> Record | None:
        later = isinstance(record.event, EpisodeEnded | Judged)
        return None if record.episode == "e000000" and later else record

    copy = await _rewritten(tmp_path / "run", tmp_path / "copy", change)
    assert _replayed(copy, scenario) == ReplayReport(1, 2, 1, (), 1, 0)


COUNTING = (
    'return {"loan_id": loan_id, "due_on": due_on}\n\n\ndef pay_fine(',
    '_CALLS.append(loan_id)\n    return {"loan_id": loan_id, "call": len(_CALLS)}\n\n\n'
    "_CALLS: list[int] = []\n\n\ndef pay_fine(",
)


async def test_a_tool_that_is_not_a_function_of_its_world_diverges(tmp_path: Path) -> None:
    """A tool that counts its calls outside of the database returns another text in the second
    episode than in a replay."""
    folder = variant(tmp_path, tools=COUNTING)
    scenario = await _run(tmp_path / "run", world=folder, tasks=["renew-emma"], episodes=2)

    def first(record: Record) -> Record | None:
        return None if record.episode == "e000000" else record

    assert _replayed(tmp_path / "run", scenario).divergences == ()
    copy = await _rewritten(tmp_path / "run", tmp_path / "copy", first)
    (divergence,) = _replayed(copy, scenario).divergences
    assert divergence == Divergence(
        "e000001",
        "library",
        "renew-emma",
        "text",
        2,
        0,
        LoggedCall("renew_loan", {"loan_id": 303, "days": 10}),
        '{"loan_id":303,"call":2}',
        '{"loan_id":303,"call":1}',
    )


async def test_a_changed_package_is_one_sentence(tmp_path: Path) -> None:
    """A replay with another package is refused; the error has the scenario, both digests
    and the command to compare with the changed package."""
    scenario = await _run(tmp_path / "run", tasks=["overdue"])
    changed = read(variant(tmp_path, tools=("There is no member", "Nobody is member")))
    with pytest.raises(LogError) as caught:
        _replayed(tmp_path / "run", changed)
    assert str(caught.value) == (
        f"{tmp_path / 'run'}: scenario 'library' has changed since the run: its digest was "
        f"{scenario.digest} and is {changed.digest} now in {changed.path}. To see what the change "
        f"makes different: rehearse replay {tmp_path / 'run'} --world {changed.path}"
    )


def test_a_missing_package_is_one_sentence(tmp_path: Path) -> None:
    """The error for a package that was not found names folder and digest and offers --world."""
    error = missing_package(tmp_path, "library", "4f1c", ["/worlds/library", "library"])
    assert str(error) == (
        f"{tmp_path}: the package of scenario 'library' (digest 4f1c) was not found; searched "
        "/worlds/library and library. Put it back there, or name another version of it: "
        f"rehearse replay {tmp_path} --world FOLDER"
    )


async def test_an_unknown_dialect_is_one_sentence(tmp_path: Path) -> None:
    """The error for an unknown dialect in a log names the dialect and the episode."""
    scenario = await _run(tmp_path / "run", tasks=["overdue"])

    def change(record: Record) -> Record:
        return _with(record, dialect="klingon") if record.seq == 0 else record

    copy = await _rewritten(tmp_path / "run", tmp_path / "copy", change)
    with pytest.raises(LogError, match="episode e000000: dialect: there is no dialect 'klingon'"):
        _replayed(copy, scenario)


async def test_what_if_nothing_changed(tmp_path: Path) -> None:
    """With the run's own package nothing changes."""
    scenario = await _run(tmp_path, episodes=12)
    report = _asked(tmp_path, scenario)

    assert (report.episodes, report.changes, report.missing_tasks) == (12, (), ())
    assert report.scenario_digests_before == (scenario.digest,) == (report.scenario_digest,)
    assert report.mean_reward_before == report.mean_reward_after == 1.0


async def test_what_if_a_tool_had_another_rule(tmp_path: Path) -> None:
    """Where a tool refuses what it allowed before, exactly the episodes that it stops are listed,
    with their rewards."""
    await _run(tmp_path / "run")
    rule = ("    if amount_cents > fine:\n", '    if method == "card" or amount_cents > fine:\n')
    report = _asked(tmp_path / "run", read(variant(tmp_path, tools=rule)))

    difference = ReplayDifference(
        "error",
        1,
        0,
        LoggedCall("pay_fine", {"member_id": 2, "amount_cents": 350, "method": "card"}),
        'success: {"fine_cents":0}',
        "refused: Member 2 owes 350 cents only.",
    )
    assert report.changes == (
        EpisodeChange(
            "e000000", "pay-fine", difference, Label.COMPLETED, Label.AGENT_ERROR, 1.0, 0.0
        ),
    )
    assert (report.results_changed, report.labels_changed, report.rewards_changed) == (1, 1, 1)
    assert (report.mean_reward_before, report.mean_reward_after) == (1.0, 5 / 6)


async def test_what_if_a_verifier_had_asked_for_more(tmp_path: Path) -> None:
    """A stricter verifier changes rewards, but no results."""
    await _run(tmp_path / "run", episodes=12)
    stricter = ('check.answer_has("301")', 'check.answer_has("the third shelf")')
    report = _asked(tmp_path / "run", read(variant(tmp_path, verify=stricter)))

    partly = Label.PARTIALLY_COMPLETED
    assert report.changes == tuple(
        EpisodeChange(episode, "return-dune", None, Label.COMPLETED, partly, 1.0, 0.1)
        for episode in ("e000001", "e000007")
    )
    assert (report.results_changed, report.labels_changed, report.rewards_changed) == (0, 2, 2)


async def test_what_if_the_seed_data_were_others(tmp_path: Path) -> None:
    """A changed row in the seed data changes the episodes that read or write it. Every state has
    another digest; that alone does not count as a change."""
    await _run(tmp_path / "run")
    report = _asked(tmp_path / "run", read(variant(tmp_path, data=("'Ben Roth'", "'Ben  Roth'"))))

    assert [change.task for change in report.changes] == ["lend-two"]
    (change,) = report.changes
    assert change.first_difference is not None
    assert (change.first_difference.what, change.first_difference.step) == ("text", 0)
    assert change.first_difference.expected == '[{"id":3,"name":"Ben Roth"}]'
    assert change.label_before == change.label_after == Label.COMPLETED


async def test_what_if_a_task_were_gone(tmp_path: Path) -> None:
    """Tasks that the changed package does not have are listed with the number of their episodes."""
    await _run(tmp_path / "run", episodes=12)
    gone = ('id = "renew-emma"', 'id = "renew-her"\nverify = "renew_emma"')
    report = _asked(tmp_path / "run", read(variant(tmp_path, tasks=gone)))

    assert report.missing_tasks == (MissingTask("renew-emma", 2),)
    assert (report.episodes, report.changes) == (10, ())


async def test_what_if_without_verdicts(tmp_path: Path) -> None:
    """Where the log has no verdict only results are compared, and these episodes are counted."""
    await _run(tmp_path / "run")

    def unjudged(record: Record) -> Record | None:
        return None if isinstance(record.event, Judged) else record

    copy = await _rewritten(tmp_path / "run", tmp_path / "copy", unjudged)
    stricter = ('check.answer_has("301")', 'check.answer_has("the third shelf")')
    report = _asked(copy, read(variant(tmp_path, verify=stricter)))
    assert (report.never_judged, report.changes, report.mean_reward_before) == (6, (), None)


async def test_what_if_of_another_scenario_is_one_sentence(tmp_path: Path) -> None:
    """A log without an episode of the changed scenario is an error."""
    await _run(tmp_path / "run", tasks=["overdue"])

    def other(record: Record) -> Record:
        return _with(record, scenario="shop") if record.seq == 0 else record

    copy = await _rewritten(tmp_path / "run", tmp_path / "copy", other)
    with pytest.raises(LogError, match="no episode of scenario 'library' in this log"):
        _asked(copy, read(LIBRARY))


def _shown(render: Callable[[Any, Console], None], report: object) -> str:
    console = Console(file=io.StringIO(), width=160)
    render(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def test_a_divergence_is_shown_with_both_sides(tmp_path: Path) -> None:
    """Position, call, expected and found are shown as plain text: markup has no effect, control
    characters are shown by escapes, and a long text is cut around the difference."""
    scenario = await _run(tmp_path / "run", tasks=["lend-two"])
    long = "[red]" + "x" * 1_000 + "\x1b[31m"
    change = _on_step(0, lambda step: _result(step, text=long))
    report = _replayed(await _rewritten(tmp_path / "run", tmp_path / "copy", change), scenario)

    shown = _shown(render_replay, report)
    assert "1 episode, 1 call: 1 divergence" in shown
    assert "episode e000000 (library / lend-two), step 0, call 0: text differs" in shown
    assert 'find_member {"name":"Ben Roth"}' in shown
    assert "[red]xxx" in shown and "\x1b" not in shown and len(shown) < 1_000
    assert msgspec.json.decode(msgspec.json.encode(report), type=ReplayReport) == report


async def test_a_clean_replay_is_one_line(tmp_path: Path) -> None:
    """A log that holds is reported in one line."""
    scenario = await _run(tmp_path, episodes=6)
    shown = _shown(render_replay, _replayed(tmp_path, scenario))
    assert shown == "6 episodes, 16 calls: equal results and states at every step\n"


async def test_what_if_is_shown_episode_by_episode(tmp_path: Path) -> None:
    """Counts, then each changed episode with label, reward and its first difference."""
    await _run(tmp_path / "run")
    rule = ("    if amount_cents > fine:\n", '    if method == "card" or amount_cents > fine:\n')
    report = _asked(tmp_path / "run", read(variant(tmp_path, tools=rule)))
    lines = [" ".join(line.split()) for line in _shown(render_what_if, report).splitlines()]

    assert lines == [
        "library: 6 episodes, 16 calls in the changed package",
        "other results 1",
        "other label 1",
        "other reward 1",
        "mean reward 1 -> 0.833",
        "",
        "episode e000000 (pay-fine): completed -> agent_error, reward 1 -> 0",
        "first at step 1, call 0: error differs",
        'call pay_fine {"member_id":2,"amount_cents":350,"method":"card"}',
        'expected success: {"fine_cents":0}',
        "found refused: Member 2 owes 350 cents only.",
    ]
    assert msgspec.json.decode(msgspec.json.encode(report), type=WhatIfReport) == report


async def test_what_if_only_models_had_judged(tmp_path: Path) -> None:
    """A label that a model gave against the code is not a verdict of the code: an unchanged package
    changes nothing."""
    scenario = await _run(tmp_path / "run")

    def by_models(record: Record) -> Record:
        event = record.event
        if not isinstance(event, Judged):
            return record
        judgements = (ModelJudgement("m", Label.AGENT_ERROR),)
        code = Label.PARTIALLY_COMPLETED if record.episode == "e000001" else Label.COMPLETED
        other = Label.COMPLETED if code is event.label else Label.AGENT_ERROR
        judged = msgspec.structs.replace(
            event, judge="hybrid:m", judgements=judgements, code=code, label=other
        )
        return msgspec.structs.replace(record, event=judged)

    copy = await _rewritten(tmp_path / "run", tmp_path / "copy", by_models)
    report = _asked(copy, scenario)
    assert (report.never_judged, report.changes) == (1, ())
