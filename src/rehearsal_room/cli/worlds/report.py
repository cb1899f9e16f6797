"""The command `worlds report`: a folder of worlds as figures, a page and a picture."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from rehearsal_room.authoring.catalogue import CatalogueFigures, Unread, catalogue_figures, title_of
from rehearsal_room.authoring.metrics import WorldFigures, world_figures
from rehearsal_room.cli.core.options import JSON, console_of, write_json
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.log.outputs import write_output
from rehearsal_room.harness.rollout.progress_display import ProgressDisplay
from rehearsal_room.judge.gate.inputs import worlds_in
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.distribution import missing_package
from rehearsal_room.scenarios.errors import PackageError


@click.command("report")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="HTML file of the page with its charts (default: no page).",
)
@click.option(
    "--png",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="PNG file of the charts alone (default: no picture).",
)
@JSON
def report_command(
    paths: Sequence[str], output: Path | None, png: Path | None, json_file: str | None
) -> None:
    """Describe worlds: sizes, chain lengths, difficulty, trades and tools, as a page with charts.

    A PATH is a world's name or folder, or a folder of packages or of AWM's jsonl files. No code of
    a world is executed. The exit status is 1 when a world could not be read; the others are
    described.
    """
    for flag, path in (("--output", output), ("--png", png)):
        if path is not None and not path.absolute().parent.is_dir():
            raise SettingsError(f"{flag}: {path}: its folder does not exist")
    if output or png:
        _require_drawing()
    read, unread = _read(worlds_in(paths))
    figures = catalogue_figures(read, unread)
    if output or png:
        _draw(figures, read, output, png)
    _render(figures, console_of(json_file))
    write_json(figures, json_file)
    if figures.unread:
        sys.exit(1)


def _require_drawing() -> None:
    """Raise SettingsError where the libraries of the page are not installed."""
    try:
        import rehearsal_room.authoring.charts
        import rehearsal_room.authoring.html  # noqa: F401
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("report", exc, "report")) from exc


def _draw(
    figures: CatalogueFigures, read: Sequence[WorldFigures], output: Path | None, png: Path | None
) -> None:
    """Write the page and the picture, those that are asked for."""
    from rehearsal_room.authoring.charts import charts_of, png_of
    from rehearsal_room.authoring.html import page_of

    drawn, title = charts_of(figures), title_of(figures)
    if output is not None:
        with ProgressDisplay("charts", total=len(drawn)) as display:
            listed = _beside(read, output.absolute().parent)
            html = page_of(figures, drawn, listed, title=title, done=display.advance)
            _write(output, html.encode())
    if png is not None:
        _write(png, png_of(drawn, title))


def _beside(worlds: Sequence[WorldFigures], folder: Path) -> list[WorldFigures]:
    """The worlds with addresses that are relative to the page's folder."""
    return [
        msgspec.structs.replace(
            world, folder=Path(os.path.relpath(Path(world.folder).absolute(), folder)).as_posix()
        )
        for world in worlds
    ]


def _read(names: Sequence[str]) -> tuple[list[WorldFigures], list[Unread]]:
    worlds: list[WorldFigures] = []
    unread = []
    with ProgressDisplay("worlds", total=len(names)) as display:
        for name in names:
            try:
                worlds.append(world_figures(find(name)))
            except PackageError as exc:
                unread.append(Unread(Path(name).name, str(exc)))
            display.advance()
    if not worlds:
        raise PackageError(f"no world could be read: {unread[0].why}")
    return worlds, unread


def _write(path: Path, data: bytes) -> None:
    try:
        write_output(path, data)
    except OSError as exc:
        raise SettingsError(f"{path} cannot be written: {exc}") from exc


def _render_texts(figures: CatalogueFigures, console: Console) -> None:
    """What the tasks of procedural worlds have in common."""
    name, share = figures.most_frequent_situation
    line = f"{figures.situations} situations, at most {share:.2%} of the tasks each ({name})"
    console.print(line, highlight=False)
    for sentence, part in figures.texts.common_sentences[:1]:
        line = f"most frequent sentence: {part:.2%}: {sentence}"
        console.print(line, highlight=False, markup=False)
    line = f"two sentences or more that begin with Then, Also …: {figures.texts.joined:.2%}"
    console.print(line, highlight=False)


def _render(figures: CatalogueFigures, console: Console) -> None:
    table = Table("median of", *figures.spreads, box=None, pad_edge=False)
    medians = [spread.median for spread in figures.spreads.values()]
    table.add_row("here", *("-" if value is None else f"{value:g}" for value in medians))
    table.add_row("AWM", *(f"{figures.awm[name]:g}" for name in figures.spreads))
    alike = figures.similarity
    head = f"{title_of(figures)}; near-duplicates: {plural(alike.pairs, 'pair')}, {alike.share:.2%}"
    console.print(head, highlight=False)
    console.print(table)
    if figures.situations:
        _render_texts(figures, console)
    for world in figures.unread:
        console.print(f"not read: {world.name}: {world.why}", highlight=False, markup=False)
