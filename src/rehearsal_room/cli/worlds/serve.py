"""The command `serve`: worlds for other programs."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import click

from rehearsal_room.cli.core.addresses import address
from rehearsal_room.cli.core.flags import flags_of, select_flags, settings_from
from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.core.options import judge_flags, pool_flags
from rehearsal_room.envpool.core.own_folder import own_folder
from rehearsal_room.envpool.core.talks import is_served
from rehearsal_room.envpool.protocols.served import ServedProtocols
from rehearsal_room.envpool.server.api import NewWorld
from rehearsal_room.envpool.server.leases import Leases
from rehearsal_room.envpool.server.serve import serve as serve_http
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.envpool.server.stdio import serve_stdio
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.rollout.process import raise_file_limit, run
from rehearsal_room.harness.serving.world_episodes import ServedEpisodes
from rehearsal_room.harness.settings.judge import needs_models
from rehearsal_room.harness.settings.run import Settings, resolve
from rehearsal_room.harness.setup.worlds import pool_of, world_source
from rehearsal_room.harness.users.left_out import report_left_out
from rehearsal_room.judge.verdicts.opener import judge_opener


@click.command("serve", cls=SectionedCommand)
@click.argument("names", nargs=-1, required=True, metavar="SCENARIO...")
@click.option("--http", metavar="HOST:PORT", help="Address to listen on (default: 127.0.0.1:8765).")
@click.option("--stdio", is_flag=True, help="Serve one world on standard input and output instead.")
@click.option(
    "--task", metavar="ID", help="Task that the world of --stdio is leased for (default: none)."
)
@flags_of(WorldServerSettings)
@judge_flags
@pool_flags
def serve_command(
    names: Sequence[str],
    http: str | None,
    stdio: bool,
    task: str | None,
    **flags: Any,
) -> None:
    """Serve worlds: over MCP, OpenEnv, NeMo Gym's contract and ORS.

    \b
        http://HOST:PORT/worlds            leases; each has an MCP endpoint
        http://HOST:PORT/openenv/SCENARIO  OpenEnv
        http://HOST:PORT/gym/SCENARIO      NeMo Gym (rows: rehearse export --to gym)
        http://HOST:PORT/ors               ORS
    """
    if stdio and len(names) != 1:
        raise SettingsError(f"--stdio: one world is served, so name one scenario, not {len(names)}")
    host, port = address(http)
    serving = settings_from(WorldServerSettings, {"host": host, "port": port, **flags})
    settings = resolve(None, select_flags(Settings, flags))
    raise_file_limit(max(serving.max_worlds, serving.max_connections + 256))
    run(_serve, settings, serving, names, task, stdio)


async def _serve(
    settings: Settings,
    serving: WorldServerSettings,
    names: Sequence[str],
    task: str | None,
    stdio: bool,
) -> None:
    find = world_source(settings.worlds).find
    scenarios = [find(name) for name in names]
    unserved = sum(not is_served(one) for scenario in scenarios for one in scenario.tasks)
    report_left_out(unserved, "their users are not automata, and a server plays no others")
    async with pool_of(settings) as pool:
        pool.announce(scenarios)
        if any(map(pool.isolates, scenarios)):
            await pool.start()
        if models := needs_models(settings.judge):
            await pool.host_all(scenarios)
        async with AsyncExitStack() as stack:
            leases = await stack.enter_async_context(Leases(pool, scenarios, serving))
            if stdio:
                await serve_stdio(leases, NewWorld(scenarios[0].name, task))
                return
            folder = stack.enter_context(own_folder("serve"))
            judged = ServedEpisodes(
                pool, judge_opener(settings), scenarios, folder=folder, one_by_one=not models
            )
            episodes = await stack.enter_async_context(judged)
            protocols = await stack.enter_async_context(ServedProtocols(leases, episodes))
            await serve_http(leases, _report_url, protocols)


def _report_url(url: str) -> None:
    click.echo(f"serving on {url}", err=True)
