"""Episodes that begin in the final state of others, in worlds of our own."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.continuation.resumed_turns import open_resumed_turns
from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.policies.base import Policy
from rehearsal_room.harness.replay.episode import EpisodeReplay, FormatCache, StateVerifier
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan, plan_of, with_sources
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Scenario, read
from tests.support.cli import Rehearse
from tests.support.paths import LIBRARY
from tests.support.run_context import DONE, LOOK, MovesPolicy, pay


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def chained() -> Scenario:
    """The library, with three tasks of which each follows the one before."""
    scenario = read(LIBRARY)
    task = scenario.task("pay-fine")
    tasks = [
        msgspec.structs.replace(task, id=name, follows=follows)
        for name, follows in (("first", ""), ("second", "first"), ("third", "library:second"))
    ]
    return msgspec.structs.replace(scenario, tasks=tuple(tasks))


WORLD = chained()


def planned(*names: str, episodes: int | None = None, group_size: int = 1) -> list[EpisodePlan]:
    tasks = [(WORLD, WORLD.task(name)) for name in names]
    plans = plan_of(tasks, episodes=episodes, group_size=group_size, seed=7)
    return list(with_sources(plans, lambda name: WORLD, num_tasks=len(tasks), seed=7))


async def play(
    folder: Path,
    policy: Policy,
    plans: Sequence[EpisodePlan],
    *,
    pool: Any = None,
    concurrency: int = 1,
    resume: bool = False,
) -> dict[str, Trajectory]:
    """Play the plans, and read what was logged."""
    parts = RunParts(
        pool=pool or LocalPool(),
        policy=policy,
        dialect=Native(),
        history=parse_history("full"),
        format=FormatSettings(),
        limits=Limits(),
    )
    with anyio.fail_after(30):
        await run_session(
            folder, plans, parts, concurrency=concurrency, meters=Meters(), resume=resume
        )
    with open_reader(folder) as reader:
        return {one.episode: one for one in reader.trajectories()}


def end_of(trajectory: Trajectory) -> str:
    assert trajectory.ended is not None and trajectory.ended.state is not None
    return trajectory.ended.state.digest


def test_what_is_followed_is_planned_before_it() -> None:
    """Where it is not among the episodes; names and seeds of these are the same with and without,
    and a longer plan begins with a shorter one. A group follows one episode, a
    round has its own."""
    found = planned("third", group_size=2)
    assert [(one.episode, one.task.id, one.source) for one in found] == [
        ("s000000", "first", ""),
        ("s000001", "second", "s000000"),
        ("e000000", "third", "s000001"),
        ("e000001", "third", "s000001"),
    ]
    plain = list(plan_of([(WORLD, WORLD.task("third"))], episodes=2, group_size=2, seed=7))
    assert [one.seed for one in found[2:]] == [one.seed for one in plain]
    assert [one.source for one in planned("first", "second")] == ["", "e000000"]
    longer = planned("third", "second", episodes=4)
    assert planned("third", "second", episodes=2) == longer[:4]
    assert [one.episode for one in longer[4:]] == ["s000002", "s000003", "e000002", "e000003"]
    assert len({one.seed for one in longer}) == len(longer)


def test_a_circle_is_refused() -> None:
    """A task that follows itself, over another one, cannot begin."""
    first, second, _ = WORLD.tasks
    world = msgspec.structs.replace(
        WORLD, tasks=(msgspec.structs.replace(first, follows="second"), second)
    )
    plans = plan_of([(world, world.tasks[0])], episodes=1, group_size=1, seed=7)
    with pytest.raises(SettingsError, match="follows itself"):
        list(with_sources(plans, lambda name: world, num_tasks=1, seed=7))


@pytest.mark.anyio
@pytest.mark.parametrize("concurrency", [1, 8])
async def test_an_episode_begins_where_another_ended(tmp_path: Path, concurrency: int) -> None:
    """In its final state, although it waits with one slot; those of a group begin alike, and none
    changes what another one finds. The log says whose state it is, and needs no other episode."""
    moves = {"e000000": [pay(1), DONE], "e000001": [pay(2), DONE]}
    policy = MovesPolicy(pay(5), DONE, by_episode=moves)
    plans = planned("third", group_size=2)
    found = await play(tmp_path, policy, plans, concurrency=concurrency)
    first, second = found["s000000"], found["s000001"]
    assert first.started.origin is None
    assert second.started.start_digest == end_of(first) != first.started.start_digest
    for name in ("e000000", "e000001"):
        started = found[name].started
        assert started.start_digest == end_of(second)
        assert started.origin is not None
        assert started.origin.episode == "s000001"
        assert started.origin.start_digest == first.started.start_digest
        assert [call.arguments["amount_cents"] for call in started.origin.calls] == [5, 5]
        left = {(one.table, one.key): one.after for one in started.origin.changes}
        for own in found[name].steps[0].executed_results[0].changes:
            assert own.before == left.get((own.table, own.key))
    assert end_of(found["e000000"]) != end_of(found["e000001"])


@pytest.mark.anyio
async def test_it_is_replayed_from_its_own_log(tmp_path: Path) -> None:
    """Equal in everything; where the state is another one, the replay says so."""
    found = await play(tmp_path, MovesPolicy(pay(5), DONE), planned("third"))
    one = found["e000000"]
    assert one.started.origin is not None and one.ended is not None
    lied = msgspec.structs.replace(one.started.origin, calls=one.started.origin.calls[:1])
    wrong = msgspec.structs.replace(one, started=msgspec.structs.replace(one.started, origin=lied))
    for trajectory, what in ((one, None), (wrong, "start")):
        pool = LocalPool()
        async with pool.lease(WORLD, WORLD.task("third")) as env:
            world = await pool.host(WORLD)
            replay = EpisodeReplay(trajectory, world, env, FormatCache(tmp_path))
            difference = await replay.compare(one.ended, StateVerifier())
            assert (None if difference is None else difference.what) == what


@pytest.mark.anyio
async def test_a_resumed_run_goes_on_in_mid_chain(tmp_path: Path) -> None:
    """What failed is played again with what follows it, and what had ended is not: all end like an
    undisturbed run. A failure is the followers' too, as a sentence."""
    broken = {"s000001": [PolicyError("no answer")]}
    plans = planned("third", group_size=2)
    found = await play(tmp_path / "a", MovesPolicy(pay(5), DONE, by_episode=broken), plans)
    for name in ("e000000", "e000001"):
        ended = found[name].ended
        assert ended is not None and ended.ending is Ending.POLICY_ERROR
        assert ended.error == (
            "episode s000001, in whose final state it begins, ended in policy_error: no answer"
        )
    policy = MovesPolicy(pay(5), DONE)
    again = await play(tmp_path / "a", policy, plans, resume=True)
    undisturbed = await play(tmp_path / "b", MovesPolicy(pay(5), DONE), plans)
    assert {name: end_of(one) for name, one in again.items()} == {
        name: end_of(one) for name, one in undisturbed.items()
    }
    assert set(policy.agents) == {"s000001", "e000000", "e000001"}
    assert again["e000000"].started.start_digest == end_of(again["s000001"])


@pytest.mark.anyio
async def test_an_attempt_has_the_state_of_the_one_before(tmp_path: Path) -> None:
    """An interrupted episode goes on in the state in which it began, after its own turns."""
    found = await play(tmp_path, MovesPolicy(pay(5), LOOK, DONE), planned("second"))
    with open_resumed_turns(tmp_path, Native(), parse_history("full")) as turns:
        kept = await turns.of("e000000", WORLD.digest, attempt=2)
    assert kept is not None
    started = found["e000000"].started
    assert (kept.origin, kept.start_digest) == (started.origin, started.start_digest)


@pytest.mark.anyio
async def test_a_state_that_cannot_be_reached_again_fails_its_episodes(tmp_path: Path) -> None:
    """Calls that leave another state than they left before; the others go on."""
    found = await play(tmp_path, MovesPolicy(pay(5), DONE), planned("second"), pool=ForgetfulPool())
    ended = found["e000000"].ended
    assert ended is not None and ended.ending is Ending.WORLD_ERROR
    assert ended.error is not None and "cannot be reached again: the world starts" in ended.error
    assert found["s000000"].ended is not None
    assert found["s000000"].ended.ending is Ending.ANSWERED


class ForgetfulPool(LocalPool):
    """Its second world does nothing."""

    num_leased = 0

    @asynccontextmanager
    async def lease(self, scenario: Any, task: Any = None) -> AsyncIterator[Any]:  # type: ignore[override]
        self.num_leased += 1
        async with super().lease(scenario, task) as env:
            yield env if self.num_leased == 1 else IdleEnv(env)


class IdleEnv:
    def __init__(self, env: Any) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        return ToolResult("done", digest=self._env.digest)


@pytest.mark.anyio
async def test_it_does_not_begin_at_the_start_unnoticed(tmp_path: Path) -> None:
    """An episode without a plan for what it follows is not played in the wrong state."""
    tasks = [(WORLD, WORLD.task("second"))]
    plans = list(plan_of(tasks, episodes=1, group_size=1, seed=7))
    found = await play(tmp_path, MovesPolicy(pay(5), DONE), plans)
    ended = found["e000000"].ended
    assert ended is not None and ended.ending is Ending.WORLD_ERROR
    assert "begins where first ended, which was not played before" in str(ended.error)


def test_a_package_cannot_say_it(rehearse: Rehearse, tmp_path: Path) -> None:
    """Its verifiers know the world's own start alone."""
    for file in LIBRARY.iterdir():
        if file.is_file():
            text = file.read_text()
            if file.name == "tasks.toml":
                text = text.replace("[[task]]", '[[task]]\nfollows = "other"', 1)
            (tmp_path / file.name).write_text(text)
    with pytest.raises(PackageError, match="follows: a task of a package begins at the world's"):
        read(tmp_path)
