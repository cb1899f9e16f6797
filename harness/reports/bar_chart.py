"""A small histogram for a terminal."""

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_LONGEST_BAR = 40  # cells


def bar_chart(title: str, counts: Mapping[str, int]) -> RenderableType:
    """One line per word, in the given order; the largest count has the longest bar.

    Example: {"answered": 3, "step_limit": 1} ->
        answered                3 ████████████████████████████████████████
        step_limit              1 █████████████
    """
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(min_width=22)
    table.add_column(justify="right")
    table.add_column()
    largest = max(counts.values(), default=0)
    for word, count in counts.items():
        bar = "█" * max(1, round(_LONGEST_BAR * count / largest)) if count else ""
        table.add_row(word, f"{count:,}", Text(bar, "cyan"))
    if not counts:
        table.add_row("none", "", "")
    return Group(Text(f"\n{title}", "bold"), table)


def most_first(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts, the largest first."""
    return dict(sorted(counts.items(), key=lambda item: -item[1]))
