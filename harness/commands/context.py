"""What the verbs are given by the roof, which alone knows the judge and the learner."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from envpool.router import PlacedPool
from harness.policies.base import OpenPolicy
from harness.rollout.launch import CourtOf
from harness.rollout.session import Court
from harness.settings.judge import JudgeSettings
from harness.settings.run import Settings, judge_settings
from scenarios.format import Scenario


class OpensCourt(Protocol):
    """Opens the judge of some settings."""

    def __call__(
        self,
        settings: JudgeSettings,
        *,
        pool: PlacedPool,
        scenarios: Sequence[Scenario],
        rewards: str,
        folder: Path,
        spent: float,
    ) -> AbstractAsyncContextManager[Court]:
        """The judge, which is closed when the block is left. `folder` is the run's, `spent` what
        its judge has cost already, in USD."""


class Roof(msgspec.Struct, frozen=True):
    """What only the roof knows."""

    court: OpensCourt
    local: Callable[[Settings], OpenPolicy]  # policy `local`; raises SettingsError

    def court_of(self, settings: Settings) -> CourtOf | None:
        """What opens the judge of a run of these settings; None: it has none."""
        if settings.judge == "none":
            return None
        judge = judge_settings(settings)

        def opened(
            pool: PlacedPool, scenarios: Sequence[Scenario], folder: Path, spent: float
        ) -> AbstractAsyncContextManager[Court]:
            return self.court(
                judge,
                pool=pool,
                scenarios=scenarios,
                rewards=settings.rewards,
                folder=folder,
                spent=spent,
            )

        return opened
