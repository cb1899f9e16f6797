"""The command `new recording`: it stands between an MCP client and its server."""

import shlex
import signal
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import click

from rehearsal_room.authoring.recordings.http_proxy import recording_of
from rehearsal_room.authoring.recordings.proxy import end_like, record
from rehearsal_room.envpool.core.own_folder import own_folder
from rehearsal_room.envpool.mcp_worlds.places import Places
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.scenarios.format import read


@click.command("recording", context_settings={"ignore_unknown_options": True})
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--world",
    type=click.Path(path_type=Path, exists=True),
    metavar="FOLDER",
    help="Start the server of this package, from its seed, instead of a command.",
)
@click.option(
    "--url",
    metavar="URL",
    help="Record a server behind this URL: clients use the address that is printed in its place.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="With --url: the port of that address (default: a free one).",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def new_recording_command(
    file: Path, world: Path | None, url: str | None, port: int | None, command: tuple[str, ...]
) -> None:
    """Record the sessions of a client with its MCP server, for `new world --from-recording`.

    Put `rehearse new recording FILE --` before the server's command in the client's
    configuration. Every byte is passed on unchanged. FILE has the calls with their arguments and
    results, the command and the tools; it has no variable of the environment. Only you can read
    it. A further session is appended. With --url, give the client the address that is printed;
    headers, such as a token, are passed on and not recorded.
    """
    if (world is not None) + (url is not None) + bool(command) != 1:
        raise SettingsError(
            "new recording: expected a command after `--`, or --world FOLDER, or --url URL"
        )
    if port is not None and url is None:
        raise SettingsError("--port is for --url")
    if url is not None:
        if not _is_url(url):
            raise SettingsError(f"--url: expected an http or https URL, not {url!r}")
        anyio.run(_record_url, url, file, port or 0)
        return
    if world is None:
        end_like(record(file, command))
        return
    scenario = read(world)
    if scenario.server is None:
        raise SettingsError(f"{world}: it is not a world of an MCP server (docs/mcp-worlds.md)")
    if len(scenario.server.servers) > 1:
        raise SettingsError(f"{world}: it has several servers; record one of them with its command")
    (server,) = scenario.server.servers
    with own_folder("recording") as made:
        places = Places(scenario, made)
        places.prepare()
        status = record(
            file.absolute(),
            places.command(server),
            variables={"TMPDIR": str(places.temporary), **places.variables(server)},
            folder=places.scratch,
            recorded_command=shlex.split(server.command),
        )
    end_like(status)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


async def _record_url(url: str, file: Path, port: int) -> None:
    """Record until SIGTERM or SIGINT."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with recording_of(url, file, port) as address:
            click.echo(f"{address} takes the place of {url}; Ctrl-C ends the recording")
            async for _ in signals:
                break
