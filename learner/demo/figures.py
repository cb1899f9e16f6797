"""The demonstration's pictures, drawn by matplotlib: curves of learning, and bars of scores."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learner.demo.evaluate import Interval

_INK, _GREY, _GRID = "#1f2933", "#6b7785", "#e3e7eb"
_COLOURS = ("#3b6ea5", "#c8553d", "#5a9a68", "#e0a030", "#8d6ab0")
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
    "legend.frameon": False,
}
_DPI = 130
Curve = Sequence[tuple[float, float]]  # (batch, value)


def draw_curves(path: Path, panels: Mapping[str, Mapping[str, Curve]], *, x: str) -> None:
    """One panel for each figure, one line in it for each run."""
    with matplotlib.style.context(["default", _STYLE]):
        figure = Figure(figsize=(3.6 * len(panels), 2.9), layout="constrained")
        for axes, (title, curves) in zip(_row(figure, len(panels)), panels.items(), strict=True):
            for (name, curve), colour in zip(curves.items(), _COLOURS, strict=False):
                axes.plot(*zip(*curve, strict=True), color=colour, label=name, linewidth=1.3)
            axes.set_title(title, fontsize=10, loc="left")
            axes.set_xlabel(x)
            axes.grid(color=_GRID)
        figure.axes[0].legend(fontsize=8)
        figure.savefig(path, dpi=_DPI)


def draw_bars(
    path: Path, groups: Mapping[str, Mapping[str, Interval]], *, y: str, title: str
) -> None:
    """Groups of bars with their intervals; every group has the same bars."""
    with matplotlib.style.context(["default", _STYLE]):
        figure = Figure(figsize=(6.4, 3.2), layout="constrained")
        axes = figure.subplots()
        names = list(next(iter(groups.values())))
        width = 0.8 / len(names)
        for number, (name, colour) in enumerate(zip(names, _COLOURS, strict=False)):
            bars = [group[name] for group in groups.values()]
            axes.bar(
                [place + width * (number - (len(names) - 1) / 2) for place in range(len(bars))],
                [100 * bar.mean for bar in bars],
                width,
                color=colour,
                label=name,
                yerr=(
                    [100 * (bar.mean - bar.low) for bar in bars],
                    [100 * (bar.high - bar.mean) for bar in bars],
                ),
                error_kw={"ecolor": _INK, "elinewidth": 1, "capsize": 2},
            )
        axes.set_xticks(range(len(groups)), list(groups))
        axes.set_ylabel(y)
        axes.set_title(title, fontsize=10, loc="left")
        axes.grid(axis="y", color=_GRID)
        axes.legend(fontsize=8)
        figure.savefig(path, dpi=_DPI)


def _row(figure: Figure, number: int) -> list[Axes]:
    axes = figure.subplots(1, number, squeeze=False)
    return list(axes[0])
