"""The microscope's picture: what each estimator explains, and how often it misses the sign, by what
it costs."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from rehearsal_room.harness.reports.chart_style import (
    LEGEND_SIZE,
    LIGHT,
    WIDTH,
    chart_style,
    save_png,
)
from rehearsal_room.learner.credit.ranking import Row

_HEIGHT = 3.4  # inches
_MARKERS = "osD^v"


def picture_of(rows: Sequence[Row]) -> bytes:
    """The picture as PNG: a line or a point for each family of estimators; variants of the discount
    and single branches are left out."""
    with chart_style():
        figure = Figure(figsize=(WIDTH, _HEIGHT), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw(left, rows, lambda row: row.explained, "explained of the advantages' squares")
        _draw(right, rows, lambda row: row.wrong + row.silent / 2, "sign missed (0: half of one)")
        left.legend(fontsize=LEGEND_SIZE)
        return save_png(figure)


def _draw(axes: Axes, rows: Sequence[Row], value: Callable[[Row], float], title: str) -> None:
    families: dict[str, list[Row]] = {}
    for row in rows:
        family, _, variant = row.name.partition(", ")
        if "discount" not in variant and family != "branch":
            families.setdefault(family, []).append(row)
    for number, (family, members) in enumerate(families.items()):
        axes.plot(
            [one.cost for one in members],
            [value(one) for one in members],
            color=LIGHT.series[number % len(LIGHT.series)],
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=4,
            linewidth=1.3,
            label=family,
        )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylim(bottom=0)
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel("turns sampled, in episodes")
    axes.grid()
