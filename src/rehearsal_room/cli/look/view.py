"""The command `view`: runs as a page in the browser, or as one file."""

import html
import sqlite3
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl

import click
import msgspec

from rehearsal_room.cli.core.options import TRUST_RUN
from rehearsal_room.envpool.core.own_folder import own_folder
from rehearsal_room.harness.core.errors import LogError, SettingsError
from rehearsal_room.harness.core.terminal import Terminal
from rehearsal_room.harness.core.user_state import state_folder
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.setup.trusted_folders import trusts_run_folders
from rehearsal_room.viewer.export import answers_of, parts_in, write_export
from rehearsal_room.viewer.reading.open_runs import (
    ShownRun,
    ShownRuns,
    check_readable,
    checked,
    found_in,
)
from rehearsal_room.viewer.server.kept_address import (
    is_free,
    is_served,
    kept_address,
    show_there,
)
from rehearsal_room.viewer.server.serve import ViewerSettings, serve

_BASE = Path("runs")


@click.command("view")
@click.argument("folders", nargs=-1, metavar="[RUN]...", type=click.Path(path_type=Path))
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Port of 127.0.0.1; 0: any free one (default: one that is kept for you).",
)
@click.option("--no-open", is_flag=True, help="Do not open the browser.")
@click.option(
    "--bus",
    metavar="URL",
    help="URL of the MQTT broker on which runs of other machines are published: "
    "mqtt[s]://user@host:port. RUN is then their name (default: the one that is live).",
)
@click.option(
    "--export",
    "exported",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="Write the runs into this file, which works without a server and without network, and do "
    "not serve them.",
)
@click.option(
    "--episodes",
    type=click.IntRange(1, 1_000),
    default=200,
    show_default=True,
    help="Number of episodes of each run in the exported file.",
)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Which episodes the exported file has, as the page's address names its filters, such as "
    "failure=wrong_record, label=-completed or text=refund; may be repeated (default: all).",
)
@TRUST_RUN
def view_command(
    folders: Sequence[Path],
    port: int | None,
    no_open: bool,
    bus: str | None,
    exported: Path | None,
    episodes: int,
    filters: Sequence[str],
) -> None:
    """Show runs in the browser: episodes, the rows that every call changed, the world at any turn.

    RUN is the folder of a run or of a training run, finished or live, a folder of such folders
    (default: ./runs), or the folder of a world. The page is served on this machine only, until
    Ctrl-C, at an address that stays the same. Where it is served already, it shows RUN, too.

    \b
        rehearse view                                     (the runs in ./runs, and all worlds)
        rehearse view runs/x runs/y
        rehearse view runs/x#e000003                      (opens at this episode)
        rehearse view runs/x --export x.html              (one file, to send to somebody)
        rehearse view runs/x --export x.html --filter label=agent_error
    """
    if filters and exported is None:
        raise SettingsError("--filter: is for --export; the page has filters of its own")
    if bus is not None:
        _view_published(bus, folders, port, no_open=no_open, exported=exported)
        return
    folders, opened = without_episode(folders)
    worlds = [folder for folder in folders if (folder / "scenario.toml").is_file()]
    found, bases = checked([folder for folder in folders if folder not in worlds])
    inside = [folder for base in bases for folder in found_in(base)]
    check_readable([ShownRun(folder) for folder in (*found, *inside)])
    if exported is not None:
        _export([*found, *inside], exported, episodes, _query_of(filters))
        return
    settings = ViewerSettings(found, bases if folders else (_BASE.absolute(),), worlds=worlds)
    if port is None and not trusts_run_folders() and (running := _handed_over(settings)):
        _print_address(running + opened)
        click.echo("the viewer that runs already shows it", err=True)
        if not no_open:
            _open_page(_written(state_folder() / "view.html", running + opened))
        return
    _serve(_placed(settings, port), no_open=no_open, opened=opened)


def _handed_over(settings: ViewerSettings) -> str:
    """The address of this user's viewer, which now shows these runs, too; empty: none runs."""
    address = kept_address()
    if address is None or not is_served(address):
        return ""
    show_there(address, folders=settings.folders, bases=settings.bases, worlds=settings.worlds)
    return address.url


def _placed(settings: ViewerSettings, port: int | None) -> ViewerSettings:
    """The settings with port and token: those that are kept for this user, but for --port 0."""
    address = None if port == 0 else kept_address()
    if address is None:
        return msgspec.structs.replace(settings, port=port or 0)
    if port is None and not is_free(address.port):
        click.echo(
            f"port {address.port}, which is kept for your viewer, is in use: links to the address "
            "below end with this viewer",
            err=True,
        )
        return settings
    return msgspec.structs.replace(settings, port=port or address.port, token=address.token)


def without_episode(folders: Sequence[Path]) -> tuple[list[Path], str]:
    """The folders, and the place in the page of an episode that one of them names after `#`; empty:
    none does. Raises LogError and SettingsError.

    Example: [runs/x#e000003] -> [runs/x], "#/run/x-5f0c3a/episode/e000003"
    """
    found, opened = list[Path](), ""
    for path in folders:
        name, mark, episode = str(path).rpartition("#")
        if mark and not path.exists():
            run = ShownRun(Path(name))
            check_readable([run])
            with closing(run), run.reading() as reader:
                if not reader.has_episode(episode):
                    raise LogError(f"{name}: there is no episode {episode!r}")
            path, opened = run.folder, f"#/run/{run.id}/episode/{episode}"
        found.append(path)
    return found, opened


def _view_published(
    bus: str,
    names: Sequence[Path],
    port: int | None,
    *,
    no_open: bool,
    exported: Path | None,
) -> None:
    if exported is not None:
        raise SettingsError("--export: a run on a broker cannot be exported; leave --export out")
    published = [str(name) for name in names]
    settings = ViewerSettings((), bus=bus, published=published)
    _serve(_placed(settings, port), no_open=no_open)


def _serve(settings: ViewerSettings, *, no_open: bool, opened: str = "") -> None:
    stack = ExitStack()

    def ready(url: str) -> None:
        _print_address(url + opened)
        click.echo("open this address in a browser; Ctrl-C ends it", err=True)
        if not no_open:
            folder = stack.enter_context(own_folder("view"))
            _open_page(_written(folder / "open.html", url + opened))

    with stack:
        run(serve, settings, ready)


def _print_address(url: str) -> None:
    Terminal(stderr=True).print(url, soft_wrap=True, highlight=False)


def _open_page(file: Path) -> None:
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(file.as_uri())


def _written(file: Path, url: str) -> Path:
    """A file of this user that leads to the page: programs see the arguments of other programs, so
    the browser gets no address with a token."""
    file.touch(0o600)
    where = html.escape(url)
    file.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0;url={where}">'
        f'<a href="{where}">runs</a>\n'
    )
    return file


def _query_of(filters: Sequence[str]) -> dict[str, list[str]]:
    """The filters of an address. Raises SettingsError.

    Example: ["label=agent_error&text=refund"] -> {"label": ["agent_error"], "text": ["refund"]}
    """
    query: dict[str, list[str]] = {}
    for one in filters:
        try:
            pairs = parse_qsl(one, keep_blank_values=True, strict_parsing=True)
        except ValueError:
            raise SettingsError(f"--filter: {one!r} is not NAME=VALUE") from None
        for name, value in pairs:
            query.setdefault(name, []).append(value)
    return query


def _export(
    folders: Sequence[Path], path: Path, episodes: int, query: dict[str, list[str]]
) -> None:
    if not folders:
        raise SettingsError("--export: name the run to write into the file")
    if not path.absolute().parent.is_dir():
        raise SettingsError(f"--export: {path}: its folder does not exist")
    with closing(ShownRuns(folders)) as runs:
        try:
            answers = run(partial(answers_of, runs.all(), episodes=episodes, query=query))
        except sqlite3.DatabaseError as exc:
            raise LogError(f"the log is damaged: the database of a world: {exc}") from exc
        size = write_export(path, answers)
    click.echo(f"{path}: {size / 1e6:.1f} MB")
    for name, part in parts_in(answers):
        click.echo(f"{name}: part: {part.episodes:,} of {part.of:,} episodes")
