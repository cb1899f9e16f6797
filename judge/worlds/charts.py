"""The figures of many worlds as charts, drawn by matplotlib. The only module that knows it.

Deterministic: the same figures and version of matplotlib give the same bytes, whatever style the
user has set.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import matplotlib.style
import msgspec
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from judge.worlds.catalogue import CatalogueFigures, Spread

_INK, _GREY, _GRID = "#1f2933", "#6b7785", "#e3e7eb"
_BLUE, _RED = "#3b6ea5", "#c8553d"
_BY_SOURCE = {"procedural": _BLUE, "written": "#e0a030", "synthesised": "#5a9a68", "AWM": "#8d6ab0"}
_BY_DIFFICULTY = {"simple": "#b9d3ea", "medium": "#6f9fcb", "hard": "#2c5784", "unrated": "#c9ced4"}
_STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # it comes with matplotlib
    "font.size": 9.5,
    "text.color": _INK,
    "axes.edgecolor": _GREY,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": _GREY,
    "ytick.color": _GREY,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "rehearsal",
}
_WIDE, _HIGH = 6.4, 3.4  # inches, of a chart
_ROW, _HEAD = 0.19, 0.7  # inches: what a bar of a list takes, and the title of them all
_BINS = 36  # at most, of a histogram
_LISTED = 40  # bars of a list, at most; of verbs, which have a long tail, fewer
_VERBS = 24
_STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500)
_UNITS = {
    "tables": "tables of a world",
    "rows": "seed rows of a world",
    "tools": "tools of a world",
    "steps": "calls of a task's oracle",
}


class Chart(msgspec.Struct, frozen=True):
    """One chart: what it shows, and how it is drawn."""

    name: str  # a file's
    title: str
    caption: str  # what a reader should see in it
    draw: Callable[[Axes], None]
    height: float = _HIGH  # inches


def charts_of(figures: CatalogueFigures) -> list[Chart]:
    """The charts for which there are figures; of two neighbours, both are short or both tall."""
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
            most=_VERBS,
        ),
    ]
    return [chart for chart in found if chart is not None]


def svg_of(chart: Chart) -> str:
    """A chart as SVG, with its title."""
    with _style():
        figure = Figure(figsize=(_WIDE, chart.height), layout="constrained")
        _draw(chart, figure)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return written.getvalue()


def png_of(charts: Sequence[Chart], title: str, *, dpi: int = 110) -> bytes:
    """All charts as one picture, two beside each other."""
    rows = [charts[place : place + 2] for place in range(0, len(charts), 2)]
    heights = [max(chart.height for chart in row) for row in rows]
    with _style():
        figure = Figure(figsize=(2 * _WIDE, sum(heights) + _HEAD), layout="constrained")
        cells = figure.subfigures(
            len(rows) + 1, 2, squeeze=False, height_ratios=[_HEAD, *heights], wspace=0.04
        )
        figure.text(
            0.012, 1 - 0.5 * _HEAD / figure.get_figheight(), title, fontsize=17, va="center"
        )
        for row, beside in zip(rows, cells[1:], strict=True):
            for chart, cell in zip(row, beside, strict=False):
                _draw(chart, cell)
        written = io.BytesIO()
        figure.savefig(written, format="png", dpi=dpi, metadata={"Software": None})
    return written.getvalue()


def _draw(chart: Chart, figure: Figure | SubFigure) -> None:
    figure.suptitle(chart.title, x=0.02, ha="left", fontsize=11.5, fontweight="bold")
    chart.draw(figure.add_subplot())


@contextmanager
def _style() -> Iterator[None]:
    with matplotlib.style.context(["default", _STYLE]):
        yield


# Histograms -------------------------------------------------------------------------------------


def _size(name: str, figures: CatalogueFigures) -> Chart:
    unit = _UNITS[name]
    whole, awm = figures.spreads[name], figures.awm[name]
    by_source = {
        source: spreads[name].counts for source, spreads in figures.spreads_by_source.items()
    }
    assert whole.median is not None
    marks = {f"median {whole.median:g}": (whole.median, _INK, "-")}
    marks[f"AWM's median {awm:g}"] = (awm, _RED, "--")

    def draw(axes: Axes) -> None:
        _histogram(axes, by_source, whole)
        _mark(axes, marks)
        axes.set_xlabel(unit)
        axes.set_ylabel("tasks" if name == "steps" else "worlds")

    caption = f"From {whole.least:,} to {whole.most:,}; half lie at or below {whole.median:g}"
    title = "Chain length" if name == "steps" else name.capitalize()
    beside = f"(AWM: {awm:g}{', steps of its agent' if name == 'steps' else ''})."
    return Chart(name, title, f"{caption} {beside}", draw)


def _histogram(axes: Axes, counts: Mapping[str, Mapping[int, int]], whole: Spread) -> None:
    """Bars of the sources' counts, one on the other."""
    assert whole.least is not None
    assert whole.most is not None
    wide = next((step for step in _STEPS if whole.most - whole.least < step * _BINS), 1_000)
    first = whole.least // wide
    places = range(first, whole.most // wide + 1)
    below = [0] * len(places)
    for source, found in counts.items():
        heights = [0] * len(places)
        for number, count in found.items():
            heights[number // wide - first] += count
        left = [place * wide + (wide - 1) / 2 for place in places]
        axes.bar(left, heights, 0.9 * wide, bottom=below, color=_BY_SOURCE[source], label=source)
        below = [low + high for low, high in zip(below, heights, strict=True)]
    if sum(bool(found) for found in counts.values()) < 2:
        for bar in axes.containers:
            bar.set_label("_")  # one source needs no legend
    _numbers(axes, "x")
    _numbers(axes, "y")


def _mark(axes: Axes, marks: Mapping[str, tuple[float, str, str]]) -> None:
    """Upright lines, with their names."""
    for name, (place, colour, line) in marks.items():
        axes.axvline(place, color=colour, linestyle=line, linewidth=1.6, label=name)
    _legend(axes)


def _turns(figures: CatalogueFigures) -> Chart | None:
    shown = {
        "look-ups before the first write": (figures.lookups, _BLUE),
        "turns between seeing a value and writing it": (figures.distances, _RED),
    }
    most = min(15, max((spread.most or 0) for spread, _ in shown.values()))
    if not figures.lookups.counts:
        return None

    def draw(axes: Axes) -> None:
        for number, (name, (spread, colour)) in enumerate(shown.items()):
            heights = [0] * (most + 1)
            for turns, count in spread.counts.items():
                heights[min(turns, most)] += count
            places = [turns + 0.42 * number - 0.21 for turns in range(most + 1)]
            axes.bar(places, heights, 0.42, color=colour, label=name)
        names = [*map(str, range(most)), f"{most}+"]
        axes.set_xticks(range(most + 1), names)
        _numbers(axes, "y")
        axes.set_xlabel("calls of the oracle")
        axes.set_ylabel("tasks that change something")
        _legend(axes)

    caption = (
        f"Half of the tasks look up {figures.lookups.median:g} times or fewer before they write, "
        f"and need a value at most {figures.distances.median:g} turns after they saw it."
    )
    return Chart("turns", "Looking before acting, and remembering", caption, draw)


def _nearest(figures: CatalogueFigures) -> Chart | None:
    found = figures.similarity
    if figures.worlds < 2:
        return None

    def draw(axes: Axes) -> None:
        axes.hist(found.nearest, bins=50, range=(0, 1), color=_BLUE, rwidth=0.9)
        _mark(axes, {"near-duplicate": (found.threshold, _RED, "--")})
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
        _numbers(axes, "y")
        axes.set_xlabel("features in common with the world that is most alike")
        axes.set_ylabel("worlds")

    caption = (
        f"Of all pairs of worlds, {found.pairs:,} ({found.share:.2%}) have at least "
        f"{found.threshold:.0%} of their tables, columns, tools and descriptions in common."
    )
    return Chart("nearest", "How much worlds are alike", caption, draw)


# Bars -------------------------------------------------------------------------------------------


def _difficulty(figures: CatalogueFigures) -> Chart:
    kinds = figures.kinds
    words = [word for word in _BY_DIFFICULTY if any(word in kind for kind in kinds.values())]

    def draw(axes: Axes) -> None:
        left = [0] * len(kinds)
        for word in words:
            wide = [kind.get(word, 0) for kind in kinds.values()]
            axes.barh(list(kinds), wide, 0.62, left=left, color=_BY_DIFFICULTY[word], label=word)
            left = [start + more for start, more in zip(left, wide, strict=True)]
        for place, total in enumerate(left):
            axes.annotate(
                f"{total:,}",
                (total, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
            )
        axes.invert_yaxis()
        axes.margins(x=0.1)
        axes.tick_params(axis="y", length=0)
        _numbers(axes, "x")
        axes.set_xlabel("tasks")
        _legend(axes)

    counts = {word: sum(kind.get(word, 0) for kind in kinds.values()) for word in words}
    told = ", ".join(f"{count / figures.tasks:.0%} {word}" for word, count in counts.items())
    caption = f"{told}. Measured: calls of the oracle plus the tables that it changes."
    return Chart("difficulty", "Kinds of tasks and their difficulty", caption, draw)


def _shares(figures: CatalogueFigures) -> Chart | None:
    shares = {name: share.count / share.of for name, share in figures.shares.items() if share.of}
    if not shares:
        return None

    def draw(axes: Axes) -> None:
        bars = axes.barh(list(shares), list(shares.values()), 0.62, color=_BLUE)
        axes.bar_label(bars, [f"{share:.1%}" for share in shares.values()], padding=4, fontsize=8.5)
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
        axes.grid(axis="x", color=_GRID)

    caption = "Shares of the tasks of which it is known; a task may have several of these."
    return Chart("shares", "What makes tasks hard", caption, draw)


def _bars(
    name: str, title: str, unit: str, counts: Mapping[str, int], *, most: int = _LISTED
) -> Chart | None:
    """A list of counts as bars, the largest first, a rest together."""
    if not counts:
        return None
    items = list(counts.items())
    items, rest = items[:most], items[most:]
    numbers = [count for _, count in items]

    def draw(axes: Axes) -> None:
        bars = axes.barh([word.replace("_", " ") for word, _ in items], numbers, 0.7, color=_BLUE)
        axes.bar_label(bars, [f"{number:,}" for number in numbers], padding=4, fontsize=8.5)
        axes.invert_yaxis()
        axes.margins(x=0.1, y=0.01)
        axes.tick_params(axis="y", length=0)
        _numbers(axes, "x")
        axes.set_xlabel(unit)

    caption = f"{len(counts):,} in all."
    if rest:
        more = sum(count for _, count in rest)
        caption += f" {len(rest):,} more, with {more:,} {unit} together, are not shown."
    return Chart(name, title, caption, draw, max(2.0, 1.0 + _ROW * len(items)))


def _pairs(figures: CatalogueFigures) -> Chart | None:
    names = sorted(figures.modules)
    if len(names) < 3:
        return None
    places = {name: place for place, name in enumerate(names)}
    cells: list[list[float]] = [[float("nan")] * len(names) for _ in names]
    for one, other, count in figures.module_pairs:
        cells[places[one]][places[other]] = cells[places[other]][places[one]] = count

    def draw(axes: Axes) -> None:
        image = axes.imshow(cells, cmap="Blues", vmin=0)
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

    met = sum(count > 0 for *_, count in figures.module_pairs)
    caption = (
        f"{met:,} of {len(figures.module_pairs):,} pairs of modules meet in a world; the worlds "
        f"have {figures.module_combinations:,} different combinations of modules."
    )
    return Chart("pairs", "Modules that meet", caption, draw, 1.0 + _ROW * _VERBS)


def _legend(axes: Axes) -> None:
    """What colours and lines mean, above the bars, where it hides none."""
    axes.legend(
        loc="lower right", bbox_to_anchor=(1, 0.99), ncols=4, fontsize=8.5, columnspacing=1.2
    )


def _numbers(axes: Axes, which: Literal["x", "y"]) -> None:
    """Whole numbers along an axis, with faint lines."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(integer=True, nbins=9, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(axis=which, color=_GRID)
