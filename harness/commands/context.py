"""What commands are handed by the composition root, which alone knows the judge and the learner."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from envpool.router import RoutingPool
from harness.policies.base import OpenPolicy
from harness.rollout.launch import OpenJudge
from harness.rollout.session import Judge
from harness.settings.judge import JudgeSettings
from harness.settings.run import Settings, judge_settings
from scenarios.format import Scenario


class JudgeOpener(Protocol):
    """Opens the judge of some settings."""

    def __call__(
        self,
        settings: JudgeSettings,
        *,
        pool: RoutingPool,
        scenarios: Sequence[Scenario],
        folder: Path,
        spent: float,
    ) -> AbstractAsyncContextManager[Judge]:
        """The judge, which is closed when the block is left. `folder` is the run's, `spent` what
        its judge has cost already, in USD."""


class CommandContext(msgspec.Struct, frozen=True):
    """What only the composition root (harness.cli) knows."""

    open_judge: JudgeOpener
    local_policy: Callable[[Settings], OpenPolicy]  # policy `local`; raises SettingsError

    def judge_opener(self, settings: Settings) -> OpenJudge | None:
        """What opens the judge of a run of these settings; None: it has none."""
        if settings.judge == "none":
            return None
        return partial(self.open_judge, judge_settings(settings))
