"""The demonstration's pictures: learning curves, and bars of scores."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.harness.reports.chart_style import (
    LEGEND_SIZE,
    LIGHT,
    WIDTH,
    chart_style,
    save_png,
)

_PANEL = (3.6, 2.9)  # inches
_TITLE = 10  # points
Curve = Sequence[tuple[float, float]]  # (batch, value)


def draw_curves(path: Path, panels: Mapping[str, Mapping[str, Curve]], *, x: str) -> None:
    """One panel for each figure, and in it one line for each run."""
    with chart_style():
        width, height = _PANEL
        figure = Figure(figsize=(width * len(panels), height), layout="constrained")
        for axes, (title, curves) in zip(_row(figure, len(panels)), panels.items(), strict=True):
            for (name, curve), colour in zip(curves.items(), LIGHT.series, strict=False):
                axes.plot(*zip(*curve, strict=True), color=colour, label=name, linewidth=1.3)
            axes.set_title(title, fontsize=_TITLE, loc="left")
            axes.set_xlabel(x)
            axes.grid()
        figure.axes[0].legend(fontsize=LEGEND_SIZE)
        path.write_bytes(save_png(figure))


def draw_bars(
    path: Path, groups: Mapping[str, Mapping[str, Interval[float]]], *, y: str, title: str
) -> None:
    """Groups of bars with their intervals; every group has the same bars."""
    with chart_style():
        figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
        axes = figure.subplots()
        names = list(next(iter(groups.values())))
        width = 0.8 / len(names)
        for number, (name, colour) in enumerate(zip(names, LIGHT.series, strict=False)):
            bars = [group[name] for group in groups.values()]
            offset = width * (number - (len(names) - 1) / 2)
            axes.bar(
                [index + offset for index in range(len(bars))],
                [100 * bar.value for bar in bars],
                width,
                color=colour,
                label=name,
                yerr=(
                    [100 * (bar.value - bar.lower) for bar in bars],
                    [100 * (bar.upper - bar.value) for bar in bars],
                ),
                error_kw={"ecolor": LIGHT.ink, "elinewidth": 1, "capsize": 2},
            )
        axes.set_xticks(range(len(groups)), list(groups))
        axes.set_ylabel(y)
        axes.set_title(title, fontsize=_TITLE, loc="left")
        axes.grid(axis="y")
        axes.legend(
            fontsize=LEGEND_SIZE, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(names)
        )
        path.write_bytes(save_png(figure))


def _row(figure: Figure, number: int) -> list[Axes]:
    axes = figure.subplots(1, number, squeeze=False)
    return list(axes[0])
