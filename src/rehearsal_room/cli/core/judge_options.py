"""What the commands of the judge share: flags, settings, the judge of a logged run."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.cli.core.flags import flags_of
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.harness.logged_runs.logged_run import (
    hosting_settings,
    run_settings,
    scenario_finder,
)
from rehearsal_room.harness.settings.fields import fields_of
from rehearsal_room.harness.settings.judge import (
    FILE_NAME,
    JudgeSettings,
    is_used,
    merge_flags,
    needs_models,
    read_judge,
)
from rehearsal_room.harness.settings.run import judge_settings
from rehearsal_room.harness.setup.run_trust import RUN_FILE, require_judge
from rehearsal_room.harness.setup.worlds import pool_of
from rehearsal_room.judge.core.evidence import scenario_info
from rehearsal_room.judge.failures.reading import open_finder
from rehearsal_room.judge.llm.llm_judge import LLMJudge
from rehearsal_room.judge.llm.released import ReleasedJudge
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.judge.verdicts.factory import open_judge
from rehearsal_room.judge.verdicts.planted_errors import PlantedErrors

_MODES = ("code", "llm", "hybrid")
_NAMES = {
    "mode": ("--mode", "--judge"),
    "models": ("-m", "--model", "--judge-model"),
}
# The flags of the judge, for commands that judge a logged run: those of a run without `judge-` in
# front.
judge_flags = flags_of(
    JudgeSettings,
    names=_NAMES,
    words={"mode": _MODES},
    help={
        "mode": "Judge of the episodes: the scenarios' code (code), models (llm), or code with "
        "models for what it leaves open (hybrid); default: as the run was judged last, or hybrid "
        "where a model is named."
    },
    omit=("rewards",),
    section="Judge",
)


def settings_of(folder: Path, flags: dict[str, Any]) -> JudgeSettings:
    """The settings with which the run was judged last, changed by the flags given. A model without
    a mode is asked in mode hybrid. Raises SettingsError."""
    for name in ("rubric", "prices", "cache", "awm_code"):
        if flags.get(name):
            flags[name] = str(Path(flags[name]).absolute())
    saved = read_judge(folder)
    began = saved or _of_run(folder)
    if (
        "models" in flags
        and "mode" not in flags
        and began.mode == "code"
        and (flags.get("profile", began.profile) == "none")
    ):
        flags["mode"] = "hybrid"
    settings = merge_flags(began, flags)
    _check_played(folder, settings)
    if needs_models(settings):
        said = folder / (RUN_FILE if saved is None else FILE_NAME)
        require_judge(settings, said, given=flags)
    unused = _unused(flags, settings)
    if unused:
        raise SettingsError(
            f"--{unused[0]}: judge {settings.mode!r} does not ask models; choose --judge llm or "
            "--judge hybrid"
        )
    return settings


def _check_played(folder: Path, settings: JudgeSettings) -> None:
    """Refuse the profile of a judging in which the run was not played. Raises SettingsError."""
    if settings.profile != "none" and run_settings(folder).judge.profile != settings.profile:
        raise SettingsError(
            f"profile: {folder} was not played with profile {settings.profile!r}, which has "
            "prompts and limits of its own; play it with run --profile"
        )


def _of_run(folder: Path) -> JudgeSettings:
    """The judge of the run itself; code where it had none of its own."""
    settings = run_settings(folder)
    if settings.judge.mode in ("none", "elsewhere"):
        judge = msgspec.structs.replace(settings.judge, mode="code")
        settings = msgspec.structs.replace(settings, judge=judge)
    return judge_settings(settings)


def _unused(flags: Mapping[str, Any], settings: JudgeSettings) -> list[str]:
    """The given flags that have no effect, since no model is asked."""
    return [
        field.flag
        for field in fields_of(JudgeSettings)
        if field.key in flags and field.key != "concurrency" and not is_used(field.key, settings)
    ]


@asynccontextmanager
async def open_run_judge(
    folder: Path, reader: LogReader, settings: JudgeSettings, *, spent: float = 0.0
) -> AsyncIterator[ScenarioJudges | PlantedErrors | LLMJudge | ReleasedJudge]:
    """The judge of a logged run; `spent` is what its budget has paid already, in USD. Raises what
    `open_judge`, the pool and the finder raise."""
    worlds = reader.scenarios().values()
    async with AsyncExitStack() as stack:
        pool, scenarios, reasons = None, [], None
        if settings.mode == "llm":
            reasons = await stack.enter_async_context(open_finder(folder, reader))
        else:
            scenario_of = scenario_finder(folder)
            scenarios = [scenario_of(world.scenario, world.scenario_digest) for world in worlds]
            hosting = hosting_settings(folder, starts_servers=False)
            pool = await stack.enter_async_context(pool_of(hosting))
            # The findings of foreign scenarios are in the log.
            await pool.host_all(scenario for scenario in scenarios if scenario.foreign is None)
        judge = open_judge(
            settings,
            pool=pool,
            scenarios=scenarios,
            folder=folder,
            spent=spent,
            infos={world.scenario_digest: scenario_info(world) for world in worlds},
            reasons=reasons,
        )
        yield await stack.enter_async_context(judge)
