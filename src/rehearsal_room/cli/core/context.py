"""What the composition root gives to commands: it alone knows the judge and the learner."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.following.judge_elsewhere import OpenJudgeElsewhere
from rehearsal_room.harness.policies.base import OpenPolicy
from rehearsal_room.harness.reports.summary import StatisticsOf
from rehearsal_room.harness.rollout.running import Judge
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.harness.settings.run import Settings, judge_settings
from rehearsal_room.harness.setup.parts import OpenJudge
from rehearsal_room.scenarios.format import Scenario


class JudgeOpener(Protocol):
    """Opens the judge that settings describe."""

    def __call__(
        self,
        settings: JudgeSettings,
        *,
        pool: RoutingPool,
        scenarios: Sequence[Scenario],
        folder: Path,
        spent: float,
    ) -> AbstractAsyncContextManager[Judge]:
        """A context manager that gives the judge and closes it. `folder` is the run's, `spent` what
        the run's judge has cost already, in USD."""


class CommandContext(msgspec.Struct, frozen=True):
    """What only the composition root (cli.main) can provide."""

    open_judge: JudgeOpener
    local_policy: Callable[[Settings], OpenPolicy]  # policy `local`; raises SettingsError
    # What compares what the learner trains of two logs; None: the learner is not installed.
    trained: Callable[[], Callable[[Path], Any] | None]
    statistics: StatisticsOf  # of a run's episodes, for its report
    # Trains as a file of settings says, in a folder, or goes on there; returns the newest weights.
    train: Callable[[Path, Path, bool], Path]
    viewer: Callable[[], Any]  # what the judge does for the viewer (a JudgingParts)
    schemas: Mapping[str, Callable[[], Any]]  # makers of the JSON Schemas of TOML files, by name

    def judge_opener(self, settings: Settings) -> OpenJudge | None:
        """A function that opens the judge of a run of these settings; None: it has no judge."""
        if settings.judge.mode == "none":
            return None
        if settings.judge.mode == "elsewhere":
            return OpenJudgeElsewhere(settings.bus)
        return partial(self.open_judge, judge_settings(settings))
