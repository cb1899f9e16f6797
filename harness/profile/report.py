"""The result of a profile: the time of each stage, and what limited the run."""

from typing import Literal

import msgspec


class StageTime(msgspec.Struct, frozen=True):
    """The time of one stage."""

    seconds: float
    share: float  # from 0 to 1
    of: Literal["episodes", "wall"]  # what it is a share of


class Profile(msgspec.Struct, frozen=True):
    """Where the time of a run went."""

    run: str  # its folder
    wall_s: float  # time in which an episode was live, or waited for its verdict
    stages: dict[str, StageTime]  # those that are known
    verdict: str  # what limited the run, a sentence
    episode_s: float  # time of all episodes, from the wait for admission to the end
    episodes: int  # that have begun
    unfinished: int  # of these, without an end: live, or cut off
    turns: int
    calls: int
    mean_live: float  # episodes at once: episode_s / wall_s
    verdict_wait_s: float  # mean time from an episode's end to its verdict
    measured_s: float  # part of wall_s for which log, bus and loop lag are known
    cpu_s: float | None = None  # of the run's processes; None: not known
    worst_lag_s: float | None = None  # the longest time for which an event loop was blocked
    worst_lag: str = ""  # what blocked it; empty: not known
    notes: tuple[str, ...] = ()  # what the log does not have, sentences


class ProfileReport(Profile, frozen=True, kw_only=True):
    """The result of `rehearse show profile`: the sum of the runs, and each of them."""

    runs: tuple[Profile, ...]


_TITLES = {"full_log": "full log", "loop_lag": "loop lag"}


def title_of(stage: str) -> str:
    """The stage as people read it."""
    return _TITLES.get(stage, stage)


def percent(share: float) -> str:
    """A share as people read it.

    Example: 0.0042 -> "0.4 %", 0.92 -> "92 %"
    """
    return f"{share:.{1 if share < 0.1 else 0}%}".replace("%", " %")
