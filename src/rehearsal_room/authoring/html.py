"""The catalogue of many worlds as one HTML file that needs nothing else: no script, no network.

Deterministic: the same figures and charts give the same bytes. Texts of worlds are escaped. Each
chart is embedded twice, for light and for dark displays.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import quote

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from rehearsal_room.authoring.catalogue import CatalogueFigures
from rehearsal_room.authoring.charts import Chart, svg_of
from rehearsal_room.authoring.metrics import TaskFigures, WorldFigures
from rehearsal_room.harness.reports.chart_style import DARK, LIGHT, Palette

_MEASURES = {
    "tables": "tables of a world",
    "rows": "seed rows of a world",
    "tools": "tools of a world",
    "steps": "calls of a task's oracle (AWM: steps of its agent)",
    "unique_tools": "different tools of a task",
}
_CLOSE = 0.15  # share of AWM's median within which a median counts as equal to it
_TEMPLATES = Environment(
    loader=PackageLoader("rehearsal_room.authoring"),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


class _Table(msgspec.Struct, frozen=True):
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class _Picture(msgspec.Struct, frozen=True):
    """A chart for light and for dark displays, as SVG in base 64."""

    name: str
    title: str
    caption: str
    light: str
    dark: str


def page_of(
    figures: CatalogueFigures,
    charts: Sequence[Chart],
    worlds: Sequence[WorldFigures] = (),
    *,
    title: str,
    done: Callable[[], None] = lambda: None,
) -> str:
    """The page. `worlds`, with folders relative to the page's, are listed with their tasks. `done`
    is called for each chart that was drawn.
    """
    return _TEMPLATES.get_template("catalogue.html").render(
        title=title,
        origin=_origin(figures),
        tiles=[(name, value) for name, value in _tiles(figures).items() if value is not None],
        medians=_medians(figures),
        pictures=list(_pictures(charts, done)),
        worlds=[_listed(world) for world in sorted(worlds, key=lambda world: world.name)],
        similar=[(one, other, f"{alike:.1%}") for one, other, alike in figures.similarity.alike],
        unread=[(world.name, world.why) for world in figures.unread],
        light=LIGHT,
        dark=DARK,
    )


class _ListedWorld(msgspec.Struct, frozen=True):
    """A world as a reader opens it."""

    name: str
    about: str  # its title and sizes
    folder: str  # an address relative to the page; empty: not known
    tasks: tuple[TaskFigures, ...]
    plays: tuple[str, ...]  # sentences on who played the tasks


def _listed(world: WorldFigures) -> _ListedWorld:
    sizes = f"{world.tables} tables, {world.rows:,} rows, {len(world.tools)} tools"
    modules = f"; {', '.join(world.modules)}" if world.modules else ""
    about = f"{world.title or world.source}: {sizes}{modules}"
    plays = tuple(play.sentence for play in world.plays)
    return _ListedWorld(world.name, about, quote(world.folder), world.tasks, plays)


def _origin(figures: CatalogueFigures) -> str:
    by = ", ".join(f"{count:,} {source}" for source, count in figures.sources.items())
    return f"Worlds by origin: {by}. Figures are read from their files."


def _tiles(figures: CatalogueFigures) -> dict[str, str | None]:
    """The large numbers at the top; None: not known."""
    declined = figures.shares.get("to be declined, whole or in part")
    return {
        "worlds": f"{figures.worlds:,}",
        "tasks": f"{figures.tasks:,}",
        "tools": f"{figures.tools:,}",
        "seed rows": f"{figures.rows:,}",
        "trades": f"{len(figures.trades):,}" if figures.trades else None,
        "module combinations": f"{figures.module_combinations:,}" if figures.modules else None,
        "near-duplicate pairs": f"{figures.similarity.share:.2%}" if figures.worlds > 1 else None,
        "situations": f"{figures.situations:,}" if figures.situations else None,
        "tasks to decline": f"{declined.count / declined.of:.0%}" if declined else None,
    }


def _medians(figures: CatalogueFigures) -> _Table:
    rows = []
    for name, words in _MEASURES.items():
        spread, awm = figures.spreads[name], figures.awm[name]
        if spread.median is None:
            continue
        difference = spread.median / awm - 1
        is_close = "yes" if abs(difference) <= _CLOSE else "no"
        extent = f"{spread.least:,} to {spread.most:,}"
        median = (f"{spread.median:g}", f"{awm:g}", f"{difference:+.0%}")
        rows.append((words, *median, is_close, extent))
    head = ("median of", "here", "AWM", "difference", f"within {_CLOSE:.0%}", "from least to most")
    return _Table(head, tuple(rows))


def _pictures(charts: Sequence[Chart], done: Callable[[], None]) -> Iterator[_Picture]:
    for chart in charts:
        light, dark = _encoded(chart, LIGHT), _encoded(chart, DARK)
        yield _Picture(chart.name, chart.title, chart.caption, light, dark)
        done()


def _encoded(chart: Chart, palette: Palette) -> str:
    return b64encode(svg_of(chart, palette).encode()).decode()
