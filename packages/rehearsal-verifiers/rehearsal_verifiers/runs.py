"""The runs of this process: one for each way in which its tasks are played."""

import os
import time
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.run_options import RunOptions
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges


class Settings(BaseModel):
    """How tasks are played; a part of each task's data, so that every worker knows it."""

    model_config = ConfigDict(frozen=True)

    scenarios: tuple[str, ...]
    history: str
    max_steps: int | None
    output: str
    agent: str = ""


@cache
def run_of(settings: Settings) -> BackgroundRun:
    """The run of this process with these settings; it opens at its first episode. Raises
    SettingsError and ScenarioError."""
    folder = Path(settings.output) / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    return BackgroundRun(folder, settings.scenarios, options_of(settings))


def options_of(settings: Settings) -> RunOptions:
    """The options of a run with these settings. Raises SettingsError."""
    return RunOptions(
        judge=ScenarioJudges,
        history=parse_history(settings.history),
        limits=Limits(max_steps=settings.max_steps, reply_timeout=None),
        agent=settings.agent,
    )
