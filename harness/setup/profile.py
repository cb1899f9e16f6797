"""What a profile needs beside its settings: its prompt, and worlds of its kind."""

from collections.abc import Sequence
from pathlib import Path

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.messages import Message
from rehearsal_room.harness.dialects.awm_release import require_repair
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.scenarios.awm.released_code import released_prompts
from rehearsal_room.scenarios.format import Scenario, Task


def profile_prompt(settings: Settings) -> tuple[Message, ...]:
    """The message before the task, the profile's system prompt; empty where there is no
    profile. Raises PackageError."""
    if settings.judge.profile == "none":
        return ()
    return (Message("system", released_prompts(Path(settings.judge.awm_code)).agent),)


def check_profile(settings: Settings, tasks: Sequence[tuple[Scenario, Task]]) -> None:
    """Check that the profile can be played, and on these tasks. Raises SettingsError and
    PackageError."""
    if settings.judge.profile == "none":
        return
    require_repair()
    for scenario, task in tasks:
        if scenario.awm is None:
            raise SettingsError(
                f"profile: {settings.judge.profile!r} plays worlds of Agent World Model, and "
                f"{scenario.name!r} is none; --awm DIR names a folder of them"
            )
        verifier = scenario.awm.verifiers.get(task.id)
        if verifier is None or verifier.sql is None:
            raise SettingsError(
                f"profile: {settings.judge.profile!r} judges by gen_verifier.jsonl, which has no "
                f"verifier of {scenario.name}:{task.id}; leave the task out: --exclude "
                f"{scenario.name}:{task.id}"
            )
    profile_prompt(settings)
