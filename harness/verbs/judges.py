"""What the verbs are given of the judge by the roof, which alone knows both."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec
from rich.console import Console

from envpool.placed import PlacedPool
from harness.config import Settings
from harness.events import Judged
from harness.launch import CourtOf
from harness.session import Court
from harness.trajectory import Trajectory
from scenarios.format import Scenario


class Bench(Court, Protocol):
    """A court whose verdicts are asked for one by one."""

    async def verdict(self, trajectory: Trajectory) -> Judged:
        """The verdict on an episode that is over."""


class Counts(Protocol):
    """Counts verdicts."""

    def add(self, trajectory: Trajectory, judged: Judged) -> None:
        """Count one."""

    def summary(self) -> Any:
        """What `judge --json` says."""


class Judges(msgspec.Struct, frozen=True):
    """The judge and the quality gate. Reports and summaries are theirs; the verbs pass them on."""

    court: Callable[[PlacedPool, Sequence[Scenario], str], Bench]  # the last: rewards, by name
    tally: Callable[[], Counts]
    tell_summary: Callable[[Any, Console], None]
    check: Callable[[Scenario, PlacedPool], Awaitable[Any]]  # a report of the gate
    unreadable: Callable[[str, str], Any]  # the same for a package that cannot be read: name, why
    tell_reports: Callable[[Sequence[Any], Console], tuple[Any, bool]]  # them as one; whether ok

    def court_of(self, settings: Settings) -> CourtOf:
        """What makes the judge of a run of these settings."""
        return lambda pool, scenarios: self.court(pool, scenarios, settings.rewards)
