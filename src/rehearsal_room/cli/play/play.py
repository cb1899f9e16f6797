"""The command `play`: a person takes the agent's part in one episode."""

import os
import secrets
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from rehearsal_room.cli.core.flags import flags_of
from rehearsal_room.cli.core.options import JSON, OUTPUT, console_of, write_json
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.terminal import Terminal
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.launch import launch
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.policies.human import HumanExchange, HumanPolicy, Surface
from rehearsal_room.harness.reports.episode_view import render_episode
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.settings.run import Settings, resolve
from rehearsal_room.harness.setup.run_folder import fresh_folder
from rehearsal_room.interop.exports.episode_lines import EpisodeLine, episode_line
from rehearsal_room.judge.verdicts.opener import judge_opener
from rehearsal_room.play.terminal import TerminalSurface

_FLAGS = (
    *("max_steps", "time_limit", "history", "seed", "seeding", "awm"),
    *("isolate", "sandbox", "worker_memory_mb", "pool", "mcp", "mcp_env", "openenv"),
)
_MAX_STEPS = 200  # a person looks around more than a model


@click.command("play")
@click.argument("task", metavar="SCENARIO:TASK")
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Play over HTTP on this port of 127.0.0.1 (0: a free one) instead of at the terminal. The "
    "token is REHEARSE_TOKEN, or a new one that is printed.",
)
@flags_of(Settings, only=_FLAGS)
@OUTPUT
@JSON
def play_command(
    task: str,
    port: int | None,
    output: Path | None,
    json_file: str | None,
    **flags: Any,
) -> None:
    """Play one task yourself: read the rules, call the tools, give the answer.

    The episode is logged and judged as any other. --json writes it as `export` does.

    \b
        rehearse play shop_support:cancel-duplicate
        rehearse play shop_support:cancel-duplicate --http 8123
    """
    settings = _settings(task, flags)
    console = console_of(json_file)
    exchange = HumanExchange(dialect_of(settings.dialect))
    policy = HumanPolicy(exchange, _surface(task, port, console))
    folder = fresh_folder(settings) if output is None else output

    async def give_result(pool: RoutingPool, meters: Meters) -> None:
        exchange.finish(_episode(folder))

    launch(
        settings,
        folder,
        resume=False,
        open_judge=judge_opener(settings),
        policy=policy,
        after=give_result,
        progress=False,
    )
    with open_reader(folder) as reader:
        render_episode(reader.trajectory(reader.episodes()[0].episode), console)
    console.print(f"run folder {folder}", highlight=False)
    write_json(_episode(folder), json_file)


def _settings(task: str, flags: dict[str, Any]) -> Settings:
    """The settings of the one episode. Raises SettingsError."""
    if not task.partition(":")[2]:
        raise SettingsError(f"{task}: name one task, as SCENARIO:TASK")
    settings = resolve(None, {**flags, "scenarios": (task,)})
    limits = msgspec.structs.replace(settings.limits, reply_timeout=None)
    if flags.get("max_steps") is None:
        limits = msgspec.structs.replace(limits, max_steps=_MAX_STEPS)
    policy = msgspec.structs.replace(settings.policy, name="human")
    return msgspec.structs.replace(settings, limits=limits, policy=policy, episodes=1)


def _surface(task: str, port: int | None, console: Console) -> Surface:
    if port is None:
        return TerminalSurface(console)
    token = os.environ.get("REHEARSE_TOKEN") or secrets.token_urlsafe(16)
    shown = "$REHEARSE_TOKEN" if os.environ.get("REHEARSE_TOKEN") else token

    def announce(url: str) -> None:
        text = f"{url}/task (GET), /call and /answer (POST); header Authorization: Bearer {shown}"
        Terminal(stderr=True).print(text, soft_wrap=True)

    from rehearsal_room.play.http_api import HttpSurface  # aiohttp takes long to import

    return HttpSurface(task, port, token, announce)


def _episode(folder: Path) -> EpisodeLine:
    """The only episode of a run, as `export` writes it."""
    with open_reader(folder) as reader:
        row = reader.episodes()[0]
        return episode_line(row, reader.trajectory(row.episode))
