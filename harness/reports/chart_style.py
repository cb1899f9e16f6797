"""The style of all charts: colours, fonts and sizes, for a light and for a dark background.

Charts are deterministic: the same data and version of matplotlib give the same bytes, whatever
style the user has set. This module needs matplotlib (extra `report`); import it only where charts
are drawn.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib.style
import msgspec
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure

WIDTH, HEIGHT = 6.4, 3.4  # inches, of one chart
DPI = 120  # of pictures in PNG
TITLE_SIZE, LEGEND_SIZE = 11.5, 8.5  # points


class Palette(msgspec.Struct, frozen=True):
    """The colours of a chart on one background."""

    background: str
    ink: str  # text
    muted: str  # axes and ticks
    grid: str
    series: tuple[str, ...]  # of lines and bars, in order
    ramp: tuple[str, str, str]  # from little to much
    unknown: str  # beside a ramp: not known

    @property
    def primary(self) -> str:
        """The colour of a single series."""
        return self.series[0]

    @property
    def accent(self) -> str:
        """The colour of what a reader should compare it with."""
        return self.series[1]

    @property
    def colormap(self) -> Colormap:
        """From the background, for nothing, to the end of the ramp."""
        return LinearSegmentedColormap.from_list("amount", [self.background, *self.ramp[1:]])


LIGHT = Palette(
    background="#ffffff",
    ink="#1f2933",
    muted="#6b7785",
    grid="#e3e7eb",
    series=("#3b6ea5", "#c8553d", "#5a9a68", "#e0a030", "#8d6ab0"),
    ramp=("#b9d3ea", "#6f9fcb", "#2c5784"),
    unknown="#c9ced4",
)
DARK = Palette(
    background="#1b232b",
    ink="#e4e9ee",
    muted="#96a3b0",
    grid="#323d48",
    series=("#6ea8dc", "#ef8a70", "#7cc48b", "#f0bf5c", "#b794dc"),
    ramp=("#2f5f8f", "#5a93c9", "#b9d3ea"),
    unknown="#55616d",
)


@contextmanager
def chart_style(palette: Palette = LIGHT) -> Iterator[None]:
    """Figures that are made and saved in the block have the style, and nothing of the user's."""
    with matplotlib.style.context(["default", _settings(palette)]):
        yield


def save_png(figure: Figure) -> bytes:
    """A figure as PNG."""
    return _saved(figure, format="png", dpi=DPI, metadata={"Software": None})


def save_svg(figure: Figure) -> str:
    """A figure as SVG, whose text stays text."""
    return _saved(figure, format="svg", metadata={"Date": None, "Creator": None}).decode()


def show_legend(axes: Axes) -> None:
    """The meaning of colours and lines, above the plot, where it hides nothing."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 0.99),
        ncols=4,
        fontsize=LEGEND_SIZE,
        columnspacing=1.2,
    )


def _saved(figure: Figure, **how: Any) -> bytes:
    written = io.BytesIO()
    figure.savefig(written, **how)
    return written.getvalue()


def _settings(palette: Palette) -> dict[str, object]:
    return {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],  # it comes with matplotlib
        "font.size": 9.5,
        "text.color": palette.ink,
        "figure.facecolor": palette.background,
        "savefig.facecolor": palette.background,
        "axes.facecolor": palette.background,
        "axes.edgecolor": palette.muted,
        "axes.labelcolor": palette.ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": palette.grid,
        "xtick.color": palette.muted,
        "ytick.color": palette.muted,
        "xtick.labelcolor": palette.ink,
        "ytick.labelcolor": palette.ink,
        "legend.frameon": False,
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "rehearsal",
    }
