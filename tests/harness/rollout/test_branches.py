"""Groups whose episodes branch: where, from what, and what happens when something is missing."""

from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.continuation.branch_points import (
    Choice,
    Point,
    Root,
    first_points,
    points_by_spread,
)
from rehearsal_room.harness.continuation.branches import Branches
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import Ending, ForkedFrom
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.core.token_bytes import encode_ids, encode_logprobs
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.policies.base import Policy
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.branch import BranchSettings
from rehearsal_room.harness.settings.limits import Limits
from tests.support.attempts import check_attempts, cut_off, outcomes_of, records_of
from tests.support.cli import Rehearse
from tests.support.paths import LIBRARY
from tests.support.run_context import DONE, LOOK, MovesPolicy, pay, plans
from tests.support.tiny_model import write_tokenizer

TASK = f"{LIBRARY}:lend-two"
TWO = BranchSettings(roots=2, width=2)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def trajectories_of(folder: Path) -> list[Trajectory]:
    with open_reader(folder) as reader:
        return sorted(reader.trajectories(), key=lambda one: one.episode)


def starts_of(folder: Path) -> dict[int, tuple[str, int] | None]:
    """For each member of a group from where it branches."""
    return {
        one.started.member: (source.episode, source.turn)
        if (source := one.started.forked_from)
        else None
        for one in trajectories_of(folder)
    }


# Where --------------------------------------------------------------------------------------------


def root(turns: int, *, reward: float = 0.0, surprise: list[float] | None = None) -> Root:
    return Root([10] * turns, surprise or [0.0] * turns, reward)


def test_even_branches_are_spread_over_all_turns() -> None:
    """Before no first turn, and not after a last one; a longer episode has more."""
    choices = first_points([root(9), root(5)], TWO, 3)
    assert [one.point for one in choices] == [Point(0, 3), Point(0, 7), Point(1, 3)]


def test_branches_begin_before_the_most_surprising_turns() -> None:
    """Of all episodes; the first turn has no state before it that others have not."""
    settings = BranchSettings(roots=2, by="entropy")
    roots = [root(3, surprise=[9.0, 1.0, 3.0]), root(2, surprise=[9.0, 2.0])]
    choices = first_points(roots, settings, 2)
    assert [one.point for one in choices] == [Point(0, 2), Point(1, 1)]
    twice = first_points(roots, settings, 4)
    assert [one.point for one in twice[3:]] == [Point(0, 2)]  # there are three states only


def test_branches_seek_where_the_values_differ() -> None:
    """Half of the roots fail, so both ends of each differ by 1/2 from the start, and the longer one
    is halved first. Its branches fail as it does: what went wrong is before them."""
    roots = [root(8, reward=0.0), root(4, reward=1.0)]
    settings = BranchSettings(roots=2, by="spread", width=2)
    assert points_by_spread(roots, [], settings)[-1].point == Point(0, 4)
    failed = points_by_spread(roots, [[0.0, 0.0]], settings)
    assert failed[-1].point == Point(0, 2)
    halved = points_by_spread(roots, [[0.0, 0.0], [0.0, 1.0]], settings)
    assert halved[-1].point == Point(1, 2)  # as much is unknown there, over more turns
    solved = points_by_spread(roots, [[1.0, 1.0]], settings)  # the error comes after it
    assert solved[-1].point == Point(0, 6)


def test_equal_values_halve_the_longest_stretch() -> None:
    """And when every state has branches, they get more."""
    settings = BranchSettings(roots=1, by="spread")
    rewards: list[list[float]] = [[0.0]] * 3
    choices = points_by_spread([root(3)], rewards, settings)
    assert [one.point for one in choices] == [Point(0, 1), Point(0, 2), Point(0, 1), Point(0, 2)]


@pytest.mark.parametrize("by", ["even", "entropy"])
def test_episodes_of_one_turn_have_no_state_to_branch_in(by: Any) -> None:
    """Then the others begin at the start as well."""
    choices = first_points([root(1), root(0)], BranchSettings(roots=2, by=by), 3)
    assert [one.point.turn for one in choices] == [0, 0, 0]
    spread = points_by_spread([root(1), root(0)], [[0.0]], BranchSettings(roots=2, by="spread"))
    assert [one.point.turn for one in spread] == [0, 0]


def test_the_budget_counts_what_a_branch_is_expected_to_sample() -> None:
    """Two roots of 40 tokens each; two branches after one turn cost 60, after three 20."""
    roots = [root(4), root(4)]
    settings = BranchSettings(roots=2, width=2, tokens=160)
    assert first_points(roots, settings, 4) == [
        Choice(Point(0, 1)),
        Choice(Point(0, 3)),
        Choice(Point(1, 1), is_refused=True),
        Choice(Point(1, 3), is_refused=True),
    ]


# In a run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 3, 64])
@pytest.mark.parametrize("by", ["even", "spread"])
def test_branches_begin_in_the_states_of_others(
    rehearse: Rehearse, tmp_path: Path, by: str, concurrency: int
) -> None:
    """With the same turns, in the same state, under another seed; however many run at once, the
    episodes are the same. Every call of the log can be made again."""
    flags = ("-p", "mutant", "-g", 8, "-n", 16, "--branch-roots", 2, "--branch-width", 2)
    status, _, err = rehearse(
        *("run", TASK, *flags, "--branch-by", by, "-c", concurrency, "-o", tmp_path / "run")
    )
    assert status == 0, err
    episodes = {one.episode: one for one in trajectories_of(tmp_path / "run")}
    assert len(episodes) == 16
    for one in episodes.values():
        source = one.started.forked_from
        assert (source is None) == (one.started.member < 2)
        if source is None:
            continue
        other = episodes[source.episode]
        assert (source.run, other.started.group) == ("", one.started.group)
        assert other.started.member < 2 and one.started.seed != other.started.seed
        assert 1 <= source.turn < len(other.steps)
        assert one.steps[: source.turn] == other.steps[: source.turn]
        assert one.first_own_turn == one.started.kept == source.turn
    assert rehearse("replay", tmp_path / "run")[0] == 0
    status, _, err = rehearse(
        *("run", TASK, *flags, "--branch-by", by, "-c", 2, "-o", tmp_path / "again")
    )
    assert status == 0, err
    assert outcomes_of(tmp_path / "run") == outcomes_of(tmp_path / "again")


@pytest.mark.parametrize("by", ["even", "spread"])
@pytest.mark.parametrize("share", [0.1, 0.4, 0.7, 0.95])
def test_a_run_that_was_cut_off_has_the_same_branches(
    rehearse: Rehearse, tmp_path: Path, by: str, share: float
) -> None:
    """Wherever that was, also where the verdict is missing by which the next branches are
    chosen."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    flags = ("-p", "mutant", "-g", 6, "-n", 12, "--branch-roots", 2, "--branch-width", 2)
    assert rehearse("run", TASK, *flags, "--branch-by", by, "-c", 3, "-o", whole)[0] == 0
    anyio.run(cut_off, whole, cut, int(share * len(records_of(whole))))
    status, _, err = rehearse("run", "--resume", "-o", cut)
    assert status == 0, err
    assert outcomes_of(cut) == outcomes_of(whole)
    assert starts_of(cut) == starts_of(whole)
    check_attempts(records_of(cut))


def test_a_budget_leaves_branches_out(rehearse: Rehearse, tmp_path: Path) -> None:
    """They end before their first turn, and the log says why."""
    tokens = ("--tokens", tmp_path / "model")
    write_tokenizer(tmp_path / "model")
    flags = ("-p", "oracle", "--dialect", "hermes", *tokens, "-g", 6, "--branch-roots", 2)
    assert rehearse("run", TASK, *flags, "-o", tmp_path / "all")[0] == 0
    roots = trajectories_of(tmp_path / "all")[:2]
    sampled = [len(step.reply.token_ids) // 4 for one in roots for step in one.steps]
    budget = sum(sampled) + 1 + sum(sampled[-2:])
    status, _, err = rehearse(
        *("run", TASK, *flags, "--branch-tokens", budget, "-o", tmp_path / "run")
    )
    assert status == 0, err
    episodes = trajectories_of(tmp_path / "run")
    refused = [one for one in episodes if not one.steps]
    assert len(refused) == 3
    for one in refused:
        assert one.ended is not None and one.ended.ending is Ending.TOKEN_LIMIT
        assert one.ended.error and "branch_tokens" in one.ended.error


async def play(
    folder: Path, policy: Policy, *, pool: Any = None, size: int = 4, by: Any = "even"
) -> None:
    """A group of the task `pay-fine`, two of whose members begin at the start."""
    branches = Branches(BranchSettings(roots=2, by=by), folder, group_size=size)
    parts = RunParts(
        pool=pool or LocalPool(),
        policy=policy,
        dialect=Native(),
        history=parse_history("full"),
        format=FormatSettings(),
        limits=Limits(),
        branches=branches,
        listeners=(branches,),
    )
    with anyio.fail_after(30):
        planned = plans(size, group_size=size)
        await run_session(folder, planned, parts, concurrency=2, meters=Meters())


@pytest.mark.anyio
async def test_a_source_whose_model_failed_has_no_branches(tmp_path: Path) -> None:
    """The others are from its companion; where both failed, they begin at the start."""
    broken = [LOOK, LOOK, PolicyError("no answer")]
    moves = {"e000000": broken}
    await play(tmp_path / "one", MovesPolicy(LOOK, pay(5), DONE, by_episode=moves))
    assert starts_of(tmp_path / "one") == {
        0: None,
        1: None,
        2: ("e000001", 1),
        3: ("e000001", 2),
    }
    moves["e000001"] = broken
    await play(tmp_path / "both", MovesPolicy(LOOK, pay(5), DONE, by_episode=moves))
    assert set(starts_of(tmp_path / "both").values()) == {None}


def sampled(reply: Reply, *logprobs: float) -> Reply:
    """A reply with tokens of these log-probabilities."""
    return msgspec.structs.replace(
        reply,
        token_ids=encode_ids(range(len(logprobs))),
        logprobs=encode_logprobs(logprobs),
    )


@pytest.mark.anyio
async def test_branches_begin_where_the_model_was_unsure(tmp_path: Path) -> None:
    """By the log-probabilities in the log; an empty reply, without any, is sure."""
    moves = sampled(LOOK, -9.0), sampled(LOOK), sampled(pay(5), -1.0, -2.0), sampled(DONE, -0.1)
    await play(tmp_path, MovesPolicy(*moves), by="entropy")
    assert starts_of(tmp_path) == {
        0: None,
        1: None,
        2: ("e000000", 2),
        3: ("e000001", 2),
    }


@pytest.mark.anyio
async def test_a_world_that_cannot_be_brought_there_begins_at_the_start(tmp_path: Path) -> None:
    """Its calls give something else now: the episode is like one without a branch, and the run goes
    on. (A fork of another run is refused.)"""
    await play(tmp_path, MovesPolicy(LOOK, pay(5), DONE), pool=ForgetfulPool())
    episodes = trajectories_of(tmp_path)
    assert starts_of(tmp_path) == dict.fromkeys(range(4))
    assert [one.ended.ending for one in episodes if one.ended] == [Ending.ANSWERED] * 4
    assert [len(one.steps) for one in episodes] == [3] * 4


class ForgetfulPool(LocalPool):
    """Its worlds give another text at every lease."""

    def __init__(self) -> None:
        super().__init__()
        self.num_leased = 0

    @asynccontextmanager
    async def lease(self, scenario: Any, task: Any) -> Any:
        self.num_leased += 1
        async with super().lease(scenario, task) as env:
            yield ForgetfulEnv(env, self.num_leased)


class ForgetfulEnv:
    def __init__(self, env: Any, number: int) -> None:
        self._env = env
        self._number = number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        result = await self._env.call(name, arguments, call_id)
        return ToolResult(f"{self._number}: {result.text}", result.error, digest=result.digest)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("-g", 4, "--branch-roots", 4), "branch_roots: all 4 episodes of a group begin at"),
        (("-g", 4, "--branch-roots", 1, "--branch-width", 2), "branch_width: the 3 branches"),
        (("-g", 4, "--branch-width", 2), "branch_width: has an effect only with branch_roots"),
        (("--branch-tokens", 2), "branch_tokens: has an effect only with branch_roots"),
        (("-g", 4, "--branch-roots", 2, "--processes", 2), "branch_roots: an episode waits"),
        (("-g", 4, "--branch-roots", 2, "--agent", "true"), "branch_roots: an agent of your own"),
        (
            ("-g", 4, "--branch-roots", 2, "--mcp", "true"),
            "branch_roots: the worlds of an MCP server do not reveal their state",
        ),
        (
            ("-g", 4, "--branch-roots", 2, "--branch-by", "spread", "--judge", "none"),
            "branch_by: 'spread' needs the rewards",
        ),
        (
            ("-g", 4, "--branch-roots", 2, "--branch-by", "entropy", "-p", "mutant"),
            "branch_by: 'entropy' goes by the log-probabilities",
        ),
        (
            ("-g", 4, "--branch-roots", 2, "--branch-tokens", 9, "-p", "mutant"),
            "branch_tokens: the replies of policy mutant do not say how many",
        ),
    ],
)
def test_what_cannot_branch_is_refused(
    rehearse: Rehearse, tmp_path: Path, flags: tuple[Any, ...], sentence: str
) -> None:
    """With one sentence that names the setting."""
    worlds = () if "--mcp" in flags else (TASK,)
    status, _, err = rehearse("run", *worlds, *flags, "-o", tmp_path / "run")
    assert status == 2
    assert f"error: {sentence}" in err.splitlines()[-1]
    assert "Traceback" not in err


def test_a_fork_cannot_branch(rehearse: Rehearse, tmp_path: Path) -> None:
    """Its episodes begin after another run's turns already."""
    source = tmp_path / "source"
    assert rehearse("run", TASK, "-o", source)[0] == 0
    status, _, err = rehearse(
        *("run", "--from", f"{source}/e000000@2", "-g", 4, "--branch-roots", 2),
        *("-o", tmp_path / "fork"),
    )
    assert status == 2 and "branch_roots: the episodes of a fork" in err


def test_forks_of_a_run_that_branches(rehearse: Rehearse, tmp_path: Path) -> None:
    """Have its settings but for the branches; a branch can be forked like any episode."""
    source, fork = tmp_path / "source", tmp_path / "fork"
    flags = ("-p", "mutant", "-g", 4, "--branch-roots", 2)
    assert rehearse("run", TASK, *flags, "-o", source)[0] == 0
    status, _, err = rehearse("run", "--from", f"{source}/e000003@1", "-g", 3, "-o", fork)
    assert status == 0, err
    assert {one.started.forked_from for one in trajectories_of(fork)} == {
        ForkedFrom(str(source), "e000003", 1)
    }
