"""What the commands share: flags, settings, where results go."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import anyio
import click
import msgspec
from rich.console import Console

from rehearsal_room.cli.core.flags import flags_of
from rehearsal_room.harness.continuation.edits import edit_text
from rehearsal_room.harness.continuation.forks import parse_fork, with_its_task
from rehearsal_room.harness.core.errors import NoModelError, SettingsError
from rehearsal_room.harness.core.terminal import Terminal
from rehearsal_room.harness.log.outputs import write_output
from rehearsal_room.harness.log.reader import require_format
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.logged_runs.logged_run import playing_settings, strangers_of
from rehearsal_room.harness.outcomes.units import Unit
from rehearsal_room.harness.settings.agent import AgentSettings
from rehearsal_room.harness.settings.fields import fields_of
from rehearsal_room.harness.settings.run import (
    Settings,
    difference,
    resolve,
    resolve_table,
    saved,
    with_defaults_of,
)
from rehearsal_room.harness.setup.exclusions import expanded
from rehearsal_room.harness.setup.planning import require_same_beginning
from rehearsal_room.harness.setup.run_trust import (
    RUN_FILE,
    harmless,
    require_play,
)
from rehearsal_room.harness.setup.trusted_folders import trust_run_folders
from rehearsal_room.harness.setup.worlds import world_source
from rehearsal_room.scenarios.core.short_text import one_line
from rehearsal_room.scenarios.files import read_toml


def _writable(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Refuse a file that cannot be written before the work, not after it."""
    if value is not None and value != "-" and not Path(value).absolute().parent.is_dir():
        raise SettingsError(f"--json: {value} cannot be written: its folder does not exist")
    return value


JSON = click.option(
    "--json",
    "json_file",
    metavar="FILE",
    callback=_writable,
    help="Write the result to this file as JSON; - for standard output.",
)
RUN = click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the run (default: a new one in runs/).",
)
JOBS = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of parallel processes.",
)
RESUME = click.option(
    "--resume", is_flag=True, help="Continue the run in the folder that --output names."
)
TRUST_RUN = click.option(
    "--trust-run",
    is_flag=True,
    expose_value=False,
    callback=lambda context, option, value: trust_run_folders() if value else None,
    help="Let a run that you did not begin on this machine run the commands and packages that its "
    "folder names, and send keys to the addresses in it.",
)
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Print the resolved settings and stop; nothing is run."
)
_CONFIG = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML file of settings, in which each flag is a key (max_steps for --max-steps); flags "
    "win over it.",
)
_SCENARIOS = click.argument("scenarios", nargs=-1, metavar="[SCENARIO[:TASK]]...")
# Names of the flags that `run --help` shows; `run --help-all` shows the others, too.
USUAL = (
    *("policy", "agent", "model", "base_url", "episodes", "group_size", "concurrency", "mcp"),
    *("seed", "judge", "output", "resume", "dry_run", "config", "json_file"),
)
_HOSTING = ("awm", "seeding", "isolate", "workers", "worker_memory_mb", "sandbox")
# Of runs: a server's clients wait themselves, and their agents are their own.
_NOT_SERVED = ("judge_concurrency", "judge_backlog", "profile", "awm_code", "judge_errors")
judge_flags = flags_of(  # of commands that judge what others play
    Settings,
    only=[
        field.key
        for field in fields_of(Settings)
        if field.table == "judge" and field.key not in _NOT_SERVED
    ],
    words={"judge": ("code", "llm", "hybrid", "none")},
    help={
        "judge": "Judge of the episodes: the scenarios' code (code), models (llm), code with "
        "models for what it leaves open (hybrid), or no judge (none)."
    },
)
pool_flags = flags_of(Settings, only=_HOSTING)  # of commands that need worlds and run no episodes


PRICES = click.option(
    "--prices",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File of the models' prices (default: the one with which the run was made).",
)


UNIT = click.option(
    "--unit",
    type=click.Choice(get_args(Unit)),
    help="Unit of the intervals: task (they are about further tasks of these worlds) or world "
    "(about other worlds, too). (default: the run's own, else world where there are eight worlds "
    "with ten tasks, else task)",
)


def run_flags(command: Callable[..., None]) -> Callable[..., None]:
    """The argument and the flags of commands that run episodes."""
    for add in (JSON, DRY_RUN, TRUST_RUN, RESUME, OUTPUT, _CONFIG, flags_of(Settings), _SCENARIOS):
        command = add(command)
    return command


def settings_of(config: Path | None, output: Path | None, resume: bool, flags: Any) -> Settings:
    """The resolved settings; a run that is resumed has those with which it began, and a fork those
    of the run from which it is forked."""
    if flags.get("exclude"):
        flags = {**flags, "exclude": expanded(flags["exclude"])}
    if flags.get("edit"):
        flags = {**flags, "edit": edit_text(flags["edit"])}
    began = output / RUN_FILE if resume and output is not None else None
    if began is None or not began.is_file():
        if flags.get("forked_from"):
            return _fork_settings(config, flags)
        settings = _with_a_model(config, flags)
        if settings.policy.name == "replay":
            settings = with_defaults_of(settings, Path(settings.policy.replay) / "run.toml")
        if config is not None and _is_of_a_run(config):
            settings = _trusted(settings, config, flags)
            if settings.task_order is None:
                settings = msgspec.structs.replace(settings, task_order="listed")
        if settings.forked_from and not settings.scenarios:
            return _with_its_task(settings, settings.episodes)
        return settings
    assert output is not None
    require_format(output)  # other formats came with other settings
    settings = with_defaults_of(resolve(config or began, flags, own=config is None), began)
    if (changed := difference(began, settings)) is not None:
        raise SettingsError(f"{began}: {changed}")
    settings = _trusted(settings, config or began, flags)
    before = saved(began)
    require_same_beginning(settings, episodes=before.episodes, group_size=before.group_size)
    return settings


def _with_a_model(config: Path | None, flags: Any) -> Settings:
    """The settings; with --base-url and no name, those of the one model that this server lists."""
    try:
        return resolve(config, flags)
    except NoModelError:
        url = flags.get("base_url")
        if not url:
            raise
    from rehearsal_room.harness.policies.openai import only_model_of

    name = anyio.run(only_model_of, url)
    click.echo(f"playing the one model that {url} lists: {one_line(name, 200)}", err=True)
    return resolve(config, {**flags, "model": name})


def _is_of_a_run(file: Path) -> bool:
    """Whether a file of settings belongs to a run, and not to the user who names it."""
    if file.name == RUN_FILE or (file.parent / LOG_NAME).exists():
        return True
    return "environment" in read_toml(file, error=SettingsError)


def _with_its_task(settings: Settings, episodes: int | None) -> Settings:
    """The settings of a fork, with its task; its world in workers where only the run that is forked
    names it."""
    if strangers_of(Path(parse_fork(settings.forked_from).run)):
        worlds = msgspec.structs.replace(settings.worlds, isolate=True)
        settings = msgspec.structs.replace(settings, worlds=worlds)
    return with_its_task(settings, world_source(settings.worlds).find, episodes=episodes)


def _trusted(settings: Settings, file: Path | None, flags: Any) -> Settings:
    """The settings, if the run of the file in which they are is the user's own, or the file acts in
    nothing that the flags do not say. Raises SettingsError."""
    if file is None or not _is_of_a_run(file):
        return settings
    given = {key for key, value in flags.items() if value not in (None, ())}
    require_play(settings, file, given=given)
    return settings if "scenarios" in given else harmless(settings, file)


def _fork_settings(config: Path | None, flags: Any) -> Settings:
    if flags.get("scenarios"):
        raise SettingsError(
            "from: a fork has the scenario and the task of its episode; name no scenario"
        )
    folder = Path(parse_fork(flags["forked_from"]).run)
    require_format(folder)
    began = folder / RUN_FILE
    file = config or (began if began.is_file() else None)
    is_named = flags.get("policy") and not flags.get("agent")
    if is_named and file == began and saved(began).agent.target:
        return fork_of_others(flags)  # the agent cannot begin in the middle, the policy can
    resolved = resolve(file, flags, own=config is None)
    settings = _trusted(resolved, file, flags)
    if config is None and not flags.get("edit"):  # the origin's own edit is in its log
        settings = msgspec.structs.replace(settings, edit="")
    return _with_its_task(settings, flags.get("episodes"))


def fork_of_others(flags: Any) -> Settings:
    """The settings of a fork of a run that an agent of the user's own played, or a person: played
    by the policy of the flags, or by none. Raises SettingsError."""
    settings = playing_settings(Path(parse_fork(flags["forked_from"]).run))
    policy = msgspec.structs.replace(settings.policy, name="noop")
    settings = msgspec.structs.replace(
        settings, policy=policy, agent=AgentSettings(), forked_from="", edit=""
    )
    resolved = resolve_table(msgspec.to_builtins(settings), flags)
    return _with_its_task(resolved, flags.get("episodes"))


def write_json(result: Any, json_file: str | None) -> None:
    """Write the machine-readable result to the file of --json, if it was given."""
    if json_file is None:
        return
    data = msgspec.json.format(msgspec.json.encode(result, enc_hook=_text_of), indent=2) + b"\n"
    if json_file == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        write_output(Path(json_file), data)
    except OSError as exc:
        raise SettingsError(f"--json: {json_file} cannot be written: {exc}") from exc


def _text_of(value: Any) -> str:
    """A path as its text: the one type of our results that JSON lacks."""
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"JSON has no form for {type(value).__name__}")


def console_of(json_file: str | None) -> Console:
    """The console for people: standard error when JSON goes to standard output."""
    return Terminal(stderr=json_file == "-")
