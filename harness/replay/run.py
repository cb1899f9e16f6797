"""Replay: every logged call is executed again on a fresh world and compared with the log.

`replay` checks whether a log still holds: equal windows, results, row changes and state digests at
every step, and a final state that is rebuilt from its stored pages. The first difference of an
episode is reported, and ends that episode's replay.

`what_if` executes the same calls on a changed package and judges the result. It shows what these
calls would have returned; it cannot show what the agent would have done after another result.
Rewards of the format rules stay as logged.

Both read the log episode by episode and hold one episode in memory. Episodes without an end (live,
or cut off by a crash) are counted and left out.

A limit: a log cannot hold half a surrogate pair and has a question mark instead. A call with one in
its arguments may replay to another result.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import EpisodeStarted, Judged, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.harness.replay.episode import (
    DifferenceKind,
    EpisodeReplay,
    FormatCache,
    LoggedCall,
    ReplayDifference,
    StateVerifier,
)
from rehearsal_room.harness.replay.packages import changed_package
from rehearsal_room.scenarios.format import Scenario

ScenarioOf = Callable[[str, str], Scenario]  # by name and package digest
JudgeEpisode = Callable[[Trajectory], Awaitable[Judged]]
ReplayProgress = Callable[[int], None]  # called with the number of episodes that are done


class Divergence(msgspec.Struct, frozen=True):
    """An episode whose replay differs from the log: the fields of Difference, and the episode."""

    episode: str
    scenario: str
    task: str
    what: DifferenceKind
    step: int | None
    call_index: int | None
    call: LoggedCall | None
    expected: str
    found: str


class ReplayReport(msgspec.Struct, frozen=True):
    """The result of `rehearse replay`, as `--json` writes it."""

    episodes: int  # replayed
    steps: int
    calls: int  # executed again; calls that the harness answers itself are not counted
    divergences: tuple[Divergence, ...]  # at most one per episode
    cut_off: int  # episodes without an end, left out
    windows_unchecked: int  # episodes under a history window that this program does not have
    unknown_worlds: int = 0  # imported episodes whose world is unknown, left out
    own_ids: int = 0  # ids and times that a server made by itself, and that stood for logged ones


class EpisodeChange(msgspec.Struct, frozen=True):
    """An episode that a changed package would change."""

    episode: str
    task: str
    first_difference: ReplayDifference | None  # None: every call returns the logged result
    label_before: Label | None
    label_after: Label | None
    reward_before: float | None
    reward_after: float | None
    unjudged: str | None = None  # why `label_after` is None


class MissingTask(msgspec.Struct, frozen=True):
    """A task of the log that the changed package does not have."""

    task: str
    episodes: int  # episodes of this task; they are not replayed


class WhatIfReport(msgspec.Struct, frozen=True):
    """The result of `rehearse replay --world DIR`, as `--json` writes it."""

    scenario: str
    scenario_digest: str  # of the changed package
    scenario_digests_before: tuple[str, ...]  # those in the log
    episodes: int  # replayed
    calls: int
    changes: tuple[EpisodeChange, ...]
    results_changed: int  # episodes
    labels_changed: int
    rewards_changed: int
    mean_reward_before: float | None  # of the replayed episodes that had a reward
    mean_reward_after: float | None
    missing_tasks: tuple[MissingTask, ...]
    never_judged: int  # replayed episodes without a verdict in the log; only results are compared
    other_episodes: int  # of other scenarios, left out
    cut_off: int  # episodes without an end, left out


async def replay(
    reader: LogReader,
    pool: Pool,
    scenario_of: ScenarioOf,
    *,
    progress: ReplayProgress | None = None,
) -> ReplayReport:
    """Execute the calls of every ended episode again and compare.

    `scenario_of` finds the package of a logged world. Raises LogError when it finds another
    package, and what `scenario_of` raises.
    """
    worlds: dict[tuple[str, str], States] = {}
    formats = FormatCache(reader.path)
    verifier = StateVerifier()
    episodes = steps = calls = cut_off = unchecked = unknown = own_ids = 0
    divergences: list[Divergence] = []
    for trajectory in reader.trajectories():
        started = trajectory.started
        if trajectory.ended is None:
            cut_off += 1
            continue
        key = (started.scenario, started.scenario_digest)
        world = worlds.get(key)
        if world is None:
            scenario = scenario_of(*key)
            if scenario.foreign is not None and not scenario.foreign.target:
                unknown += 1
                continue
            _require_same(reader.path, started, scenario)
            world = worlds[key] = await pool.host(scenario)
        async with pool.lease(world.scenario, None) as env:
            episode = EpisodeReplay(trajectory, world, env, formats)
            difference = await episode.compare(trajectory.ended, verifier)
        if difference is not None:
            divergences.append(_divergence(trajectory, difference))
        episodes += 1
        steps += len(trajectory.steps)
        calls += episode.num_calls
        unchecked += episode.fold is None
        own_ids += episode.num_own_ids
        if progress is not None:
            progress(episodes)
    return ReplayReport(
        episodes, steps, calls, tuple(divergences), cut_off, unchecked, unknown, own_ids
    )


async def what_if(
    reader: LogReader,
    pool: Pool,
    changed: Scenario,
    judge: JudgeEpisode,
    *,
    progress: ReplayProgress | None = None,
) -> WhatIfReport:
    """Find the episodes of the scenario that a changed package would change, and how.

    `judge` judges by the changed package. An episode counts as changed when the text, the error or
    the changed rows of a call differ, or its label or reward. State digests are not compared: any
    change to the seed data changes all of them.

    Raises LogError when the log has no episode of this scenario, PoolError when the package cannot
    be hosted, and what `judge` raises.
    """
    world = await pool.host(changed)
    tasks = {task.id for task in changed.tasks}
    formats = FormatCache(reader.path)
    tally = _Tally(changed)
    for trajectory in reader.trajectories():
        started = trajectory.started
        if started.scenario != changed.name:
            tally.other_episodes += 1
        elif trajectory.ended is None:
            tally.cut_off += 1
        elif started.task not in tasks:
            tally.missing[started.task] = tally.missing.get(started.task, 0) + 1
        else:
            async with pool.lease(changed, None) as env:
                episode = EpisodeReplay(trajectory, world, env, formats)
                replayed, difference = await episode.rerun(trajectory.ended)
            tally.add(trajectory, difference, await judge(replayed), episode.num_calls)
            if progress is not None:
                progress(tally.episodes)
    if not (tally.episodes or tally.missing or tally.cut_off):
        raise LogError(f"{reader.path}: no episode of scenario {changed.name!r} in this log")
    return tally.report()


class _Tally:
    """The changes, collected episode by episode."""

    def __init__(self, changed: Scenario) -> None:
        self._changed = changed
        self._digests: dict[str, None] = {}  # of the logged packages, in order
        self._changes: list[EpisodeChange] = []
        self._before: list[float] = []
        self._after: list[float] = []
        self._results_changed = self._labels_changed = self._rewards_changed = 0
        self._never_judged = self._calls = 0
        self.missing: dict[str, int] = {}
        self.episodes = self.other_episodes = self.cut_off = 0

    def add(
        self, trajectory: Trajectory, difference: ReplayDifference | None, after: Judged, calls: int
    ) -> None:
        """Count an episode that was replayed and judged."""
        self.episodes += 1
        self._calls += calls
        self._digests[trajectory.started.scenario_digest] = None
        before = _verdict(trajectory, after.judge)
        if before is not None and before.reward is not None:
            self._before.append(before.reward)
        if after.reward is not None:
            self._after.append(after.reward)
        self._never_judged += before is None
        label_changed = before is not None and before.label != after.label
        reward_changed = before is not None and before.reward != after.reward
        self._results_changed += difference is not None
        self._labels_changed += label_changed
        self._rewards_changed += reward_changed
        if difference is not None or label_changed or reward_changed:
            self._changes.append(
                EpisodeChange(
                    trajectory.episode,
                    trajectory.started.task,
                    difference,
                    None if before is None else before.label,
                    after.label,
                    None if before is None else before.reward,
                    after.reward,
                    after.unjudged,
                )
            )

    def report(self) -> WhatIfReport:
        """The report on the episodes so far."""
        return WhatIfReport(
            scenario=self._changed.name,
            scenario_digest=self._changed.digest,
            scenario_digests_before=tuple(self._digests),
            episodes=self.episodes,
            calls=self._calls,
            changes=tuple(self._changes),
            results_changed=self._results_changed,
            labels_changed=self._labels_changed,
            rewards_changed=self._rewards_changed,
            mean_reward_before=_mean(self._before),
            mean_reward_after=_mean(self._after),
            missing_tasks=tuple(MissingTask(*item) for item in self.missing.items()),
            never_judged=self._never_judged,
            other_episodes=self.other_episodes,
            cut_off=self.cut_off,
        )


def _verdict(trajectory: Trajectory, judge: str) -> Judged | None:
    """The logged verdict of this judge, else the last verdict of any judge; None: there is none.

    Also None where models decided the last verdict: it does not show what this judge would have
    decided.
    """
    for verdict in trajectory.judged:
        if verdict.judge == judge:
            return verdict
    last = trajectory.judged[-1] if trajectory.judged else None
    by_models = last is not None and (last.judgements or last.asked)
    return None if last is None or (by_models and last.code is not last.label) else last


def _mean(rewards: list[float]) -> float | None:
    return sum(rewards) / len(rewards) if rewards else None


def _require_same(path: Path, started: EpisodeStarted, scenario: Scenario) -> None:
    if scenario.digest != started.scenario_digest:
        raise changed_package(
            path.parent,
            started.scenario,
            started.scenario_digest,
            found=scenario.digest,
            source=scenario.path,
        )


def _divergence(trajectory: Trajectory, difference: ReplayDifference) -> Divergence:
    started = trajectory.started
    return Divergence(
        trajectory.episode,
        started.scenario,
        started.task,
        difference.what,
        difference.step,
        difference.call_index,
        difference.call,
        difference.expected,
        difference.found,
    )
