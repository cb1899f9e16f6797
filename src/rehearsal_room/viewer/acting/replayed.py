"""One logged episode, replayed: its calls are made again in a fresh world, as `rehearse replay`
makes them, and the first difference from the log is shown at its turn."""

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.replay.episode import (
    EpisodeReplay,
    FormatCache,
    ReplayDifference,
    StateVerifier,
)
from rehearsal_room.viewer.acting.pools import OpenPools
from rehearsal_room.viewer.acting.scratch import ScratchOrigin
from rehearsal_room.viewer.reading.plain import plain


class FirstDivergence(msgspec.Struct, frozen=True):
    """Where a replay first differs from the log."""

    what: str  # see harness.replay.episode.DifferenceKind
    turn: int | None  # from 0; None: before the first turn, or after the last
    call: int | None
    expected: str  # as logged
    found: str


class ReplayFindings(msgspec.Struct, frozen=True):
    """What a replay found."""

    calls: int  # that were made again
    divergence: FirstDivergence | None  # None: everything is equal


async def replayed(pools: OpenPools, origin: ScratchOrigin) -> ReplayFindings:
    """Replay the episode of an origin. Raises SettingsError where it cannot be replayed."""
    trajectory = _replayable(origin)
    assert trajectory.ended is not None
    formats = FormatCache(origin.folder / LOG_NAME)
    async with (
        pools.open(origin.settings, origin.scenario) as pool,
        pool.lease(origin.scenario, None) as env,
    ):
        replay = EpisodeReplay(trajectory, pool.hosted(origin.scenario), env, formats)
        difference = await replay.compare(trajectory.ended, StateVerifier())
    return ReplayFindings(replay.num_calls, None if difference is None else _shown(difference))


def _replayable(origin: ScratchOrigin) -> Trajectory:
    trajectory, scenario = origin.trajectory, origin.scenario
    assert trajectory is not None
    if trajectory.ended is None:
        raise SettingsError("replay: the episode has no end yet; wait for it, or resume the run")
    if not trajectory.started.start_digest:
        raise SettingsError("replay: the worlds of an MCP server do not reveal their state")
    if scenario.foreign is not None and not scenario.foreign.target:
        raise SettingsError("replay: the episode was imported, and its world is not known")
    return trajectory


def _shown(difference: ReplayDifference) -> FirstDivergence:
    return FirstDivergence(
        difference.what,
        difference.step,
        difference.call_index,
        plain(difference.expected),
        plain(difference.found),
    )
