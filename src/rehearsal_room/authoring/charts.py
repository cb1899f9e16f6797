"""The figures of many worlds as charts (see harness.reports.chart_style)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from rehearsal_room.authoring.catalogue import CatalogueFigures, Spread
from rehearsal_room.harness.reports.chart_style import (
    HEIGHT,
    LIGHT,
    TITLE_SIZE,
    WIDTH,
    Palette,
    chart_style,
    save_png,
    save_svg,
    show_legend,
)

_SOURCES = ("procedural", "AWM", "synthesised", "written")  # in the order of the series' colours
_DIFFICULTIES = ("simple", "medium", "hard", "unrated")
_BAR_LABEL_SIZE = 8.5  # points
_ROW, _HEAD = 0.19, 0.7  # inches: the height of a bar in a list, and of the picture's title
_MAX_BINS = 36  # of a histogram
_MAX_BARS = 40  # of a list; verbs, which have a long tail, have fewer
_MAX_VERBS = 24
_STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500)
_UNITS = {
    "tables": "tables of a world",
    "rows": "seed rows of a world",
    "tools": "tools of a world",
    "steps": "calls of a task's oracle",
}


class Chart(msgspec.Struct, frozen=True):
    """One chart: what it shows, and how it is drawn."""

    name: str  # as an id on the page
    title: str
    caption: str  # what a reader should see in it
    draw: Callable[[Axes, Palette], None]
    height: float = HEIGHT  # inches


def charts_of(figures: CatalogueFigures) -> list[Chart]:
    """The charts for which there are figures. Charts side by side have similar
    heights."""
    found = [
        *(_size(name, figures) for name in _UNITS if figures.spreads[name].counts),
        _difficulty(figures),
        _shares(figures),
        _turns(figures),
        _nearest(figures),
        _bars("trades", "Trades", "worlds", figures.trades),
        _bars("modules", "Business modules that not every world has", "worlds", figures.modules),
        _pairs(figures),
        _bars(
            "verbs",
            "What tools do: the first word of their names",
            "tools",
            figures.verbs,
            most=_MAX_VERBS,
        ),
    ]
    return [chart for chart in found if chart is not None]


def svg_of(chart: Chart, palette: Palette = LIGHT) -> str:
    """A chart as SVG, with its title."""
    with chart_style(palette):
        figure = Figure(figsize=(WIDTH, chart.height), layout="constrained")
        _draw(chart, figure, palette)
        return save_svg(figure)


def png_of(charts: Sequence[Chart], title: str) -> bytes:
    """All charts as one picture, in rows of two."""
    rows = [charts[start : start + 2] for start in range(0, len(charts), 2)]
    heights = [max(chart.height for chart in row) for row in rows]
    with chart_style():
        figure = Figure(figsize=(2 * WIDTH, sum(heights) + _HEAD), layout="constrained")
        cells = figure.subfigures(
            len(rows) + 1, 2, squeeze=False, height_ratios=[_HEAD, *heights], wspace=0.04
        )
        figure.text(
            0.012, 1 - 0.5 * _HEAD / figure.get_figheight(), title, fontsize=17, va="center"
        )
        for row, row_cells in zip(rows, cells[1:], strict=True):
            for chart, cell in zip(row, row_cells, strict=False):
                _draw(chart, cell, LIGHT)
        return save_png(figure)


def _draw(chart: Chart, figure: Figure | SubFigure, palette: Palette) -> None:
    figure.suptitle(chart.title, x=0.02, ha="left", fontsize=TITLE_SIZE, fontweight="bold")
    chart.draw(figure.add_subplot(), palette)


# Histograms -------------------------------------------------------------------------------------


def _size(name: str, figures: CatalogueFigures) -> Chart:
    unit = _UNITS[name]
    whole, awm = figures.spreads[name], figures.awm[name]
    by_source = {
        source: spreads[name].counts for source, spreads in figures.spreads_by_source.items()
    }
    median = whole.median
    assert median is not None
    here, there = f"median {median:g}", f"AWM's median {awm:g}"

    def draw(axes: Axes, palette: Palette) -> None:
        _histogram(axes, by_source, whole, palette)
        _mark(axes, here, median, palette.ink, "-")
        _mark(axes, there, awm, palette.accent, "--")
        show_legend(axes)
        axes.set_xlabel(unit)
        axes.set_ylabel("tasks" if name == "steps" else "worlds")

    caption = f"From {whole.least:,} to {whole.most:,}; half are at or below {median:g}"
    title = "Chain length" if name == "steps" else name.capitalize()
    compared = f"(AWM: {awm:g}{', steps of its agent' if name == 'steps' else ''})."
    return Chart(name, title, f"{caption} {compared}", draw)


def _histogram(
    axes: Axes, counts: Mapping[str, Mapping[int, int]], whole: Spread, palette: Palette
) -> None:
    """Stacked bars of the sources' counts."""
    assert whole.least is not None
    assert whole.most is not None
    wide = next((step for step in _STEPS if whole.most - whole.least < step * _MAX_BINS), 1_000)
    first = whole.least // wide
    bins = range(first, whole.most // wide + 1)
    below = [0] * len(bins)
    for source, found in counts.items():
        heights = [0] * len(bins)
        for number, count in found.items():
            heights[number // wide - first] += count
        left = [bin * wide + (wide - 1) / 2 for bin in bins]
        colour = palette.series[_SOURCES.index(source)]
        axes.bar(left, heights, 0.9 * wide, bottom=below, color=colour, label=source)
        below = [low + high for low, high in zip(below, heights, strict=True)]
    if sum(bool(found) for found in counts.values()) < 2:
        for bar in axes.containers:
            bar.set_label("_")  # one source needs no legend
    _numbers(axes, "x")
    _numbers(axes, "y")


def _mark(axes: Axes, name: str, x: float, colour: str, line: str) -> None:
    """A vertical line with a name for the legend."""
    axes.axvline(x, color=colour, linestyle=line, linewidth=1.6, label=name)


def _turns(figures: CatalogueFigures) -> Chart | None:
    shown = {
        "look-ups before the first write": figures.lookups,
        "turns between seeing a value and writing it": figures.distances,
    }
    most = min(15, max((spread.most or 0) for spread in shown.values()))
    if not figures.lookups.counts:
        return None

    def draw(axes: Axes, palette: Palette) -> None:
        for number, (name, spread) in enumerate(shown.items()):
            heights = [0] * (most + 1)
            for turns, count in spread.counts.items():
                heights[min(turns, most)] += count
            centres = [turns + 0.42 * number - 0.21 for turns in range(most + 1)]
            axes.bar(centres, heights, 0.42, color=palette.series[number], label=name)
        names = [*map(str, range(most)), f"{most}+"]
        axes.set_xticks(range(most + 1), names)
        _numbers(axes, "y")
        axes.set_xlabel("calls of the oracle")
        axes.set_ylabel("tasks that change something")
        show_legend(axes)

    caption = (
        f"Half of the tasks look up {figures.lookups.median:g} times or fewer before they write, "
        f"and need a value at most {figures.distances.median:g} turns after they saw it."
    )
    return Chart("turns", "Looking before acting, and remembering", caption, draw)


def _nearest(figures: CatalogueFigures) -> Chart | None:
    found = figures.similarity
    if figures.worlds < 2:
        return None

    def draw(axes: Axes, palette: Palette) -> None:
        axes.hist(found.nearest, bins=50, range=(0, 1), color=palette.primary, rwidth=0.9)
        _mark(axes, "near-duplicate", found.threshold, palette.accent, "--")
        show_legend(axes)
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
        _numbers(axes, "y")
        axes.set_xlabel("features in common with the most similar world")
        axes.set_ylabel("worlds")

    caption = (
        f"Of all pairs of worlds, {found.pairs:,} ({found.share:.2%}) have at least "
        f"{found.threshold:.0%} of their tables, columns, tools and descriptions in common."
    )
    return Chart("nearest", "How similar the worlds are", caption, draw)


# Bars -------------------------------------------------------------------------------------------


def _difficulty(figures: CatalogueFigures) -> Chart:
    kinds = figures.kinds
    words = [word for word in _DIFFICULTIES if any(word in kind for kind in kinds.values())]

    def draw(axes: Axes, palette: Palette) -> None:
        colours = dict(zip(_DIFFICULTIES, (*palette.ramp, palette.unknown), strict=True))
        left = [0] * len(kinds)
        for word in words:
            wide = [kind.get(word, 0) for kind in kinds.values()]
            axes.barh(list(kinds), wide, 0.62, left=left, color=colours[word], label=word)
            left = [start + more for start, more in zip(left, wide, strict=True)]
        for row, total in enumerate(left):
            axes.annotate(
                f"{total:,}",
                (total, row),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=_BAR_LABEL_SIZE,
            )
        axes.invert_yaxis()
        axes.margins(x=0.1)
        axes.tick_params(axis="y", length=0)
        _numbers(axes, "x")
        axes.set_xlabel("tasks")
        show_legend(axes)

    counts = {word: sum(kind.get(word, 0) for kind in kinds.values()) for word in words}
    shares = ", ".join(f"{count / figures.tasks:.0%} {word}" for word, count in counts.items())
    caption = f"{shares}. Measured: calls of the oracle plus the tables that it changes."
    return Chart("difficulty", "Kinds of tasks and their difficulty", caption, draw)


def _shares(figures: CatalogueFigures) -> Chart | None:
    shares = {name: share.count / share.of for name, share in figures.shares.items() if share.of}
    if not shares:
        return None

    def draw(axes: Axes, palette: Palette) -> None:
        bars = axes.barh(list(shares), list(shares.values()), 0.62, color=palette.primary)
        axes.bar_label(
            bars, [f"{share:.1%}" for share in shares.values()], padding=4, fontsize=_BAR_LABEL_SIZE
        )
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
        axes.grid(axis="x")

    caption = "Shares of the tasks for which it is known; a task may have several of these."
    return Chart("shares", "What makes tasks hard", caption, draw)


def _bars(
    name: str, title: str, unit: str, counts: Mapping[str, int], *, most: int = _MAX_BARS
) -> Chart | None:
    """Counts as bars, the largest first; the caption counts those that are not shown."""
    if not counts:
        return None
    items = list(counts.items())
    items, rest = items[:most], items[most:]
    numbers = [count for _, count in items]

    def draw(axes: Axes, palette: Palette) -> None:
        words = [word.replace("_", " ") for word, _ in items]
        bars = axes.barh(words, numbers, 0.7, color=palette.primary)
        axes.bar_label(
            bars, [f"{number:,}" for number in numbers], padding=4, fontsize=_BAR_LABEL_SIZE
        )
        axes.invert_yaxis()
        axes.margins(x=0.1, y=0.01)
        axes.tick_params(axis="y", length=0)
        _numbers(axes, "x")
        axes.set_xlabel(unit)

    caption = f"{len(counts):,} in all."
    if rest:
        more = sum(count for _, count in rest)
        caption += f" {len(rest):,} more, with {more:,} {unit} in all, are not shown."
    return Chart(name, title, caption, draw, max(2.0, 1.0 + _ROW * len(items)))


def _pairs(figures: CatalogueFigures) -> Chart | None:
    names = sorted(figures.modules)
    if len(names) < 3:
        return None
    index = {name: number for number, name in enumerate(names)}
    cells: list[list[float]] = [[float("nan")] * len(names) for _ in names]
    for one, other, count in figures.module_pairs:
        cells[index[one]][index[other]] = cells[index[other]][index[one]] = count

    def draw(axes: Axes, palette: Palette) -> None:
        image = axes.imshow(cells, cmap=palette.colormap, vmin=0)
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        figure = axes.get_figure(root=True)
        assert figure is not None
        whole = MaxNLocator(integer=True, nbins=6)
        colours = figure.colorbar(image, ax=axes, shrink=0.8, ticks=whole)
        colours.set_label("worlds with both")
        colours.outline.set_visible(False)

    used = sum(count > 0 for *_, count in figures.module_pairs)
    caption = (
        f"{used:,} of {len(figures.module_pairs):,} pairs of modules occur in a world; the worlds "
        f"have {figures.module_combinations:,} different combinations of modules."
    )
    return Chart("pairs", "Modules that occur together", caption, draw, 1.0 + _ROW * _MAX_VERBS)


def _numbers(axes: Axes, which: Literal["x", "y"]) -> None:
    """Integers along an axis, with grid lines."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(integer=True, nbins=9, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(axis=which)
