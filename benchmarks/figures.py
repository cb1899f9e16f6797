"""Figures of the benchmarks, and the table that holds them against the performance contract."""

import logging
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import msgspec
import structlog


class Figure(msgspec.Struct, frozen=True):
    """One measured figure: the median of several runs and how far they lay apart."""

    name: str
    unit: str
    measured: float
    low: float
    high: float
    reach: float | None = None  # the contract's; None: it is not part of the contract
    aim: float | None = None

    @property
    def verdict(self) -> str:
        """Whether the figure meets the contract; empty where it is not part of it."""
        if self.reach is None:
            return ""
        if self.aim is not None and self.measured <= self.aim:
            return "aim"
        return "reach" if self.measured <= self.reach else "MISSED"


def figure(
    name: str,
    unit: str,
    values: Iterable[float],
    *,
    reach: float | None = None,
    aim: float | None = None,
) -> Figure:
    """The figure of several runs' values."""
    ordered = sorted(values)
    return Figure(name, unit, median(ordered), ordered[0], ordered[-1], reach, aim)


def table(figures: Iterable[Figure]) -> str:
    """The figures as lines of text."""
    rows = [["", "measured", "lowest", "highest", "reach", "aim", ""]]
    for one in figures:
        name = f"{one.name}, {one.unit}" if one.unit else one.name
        numbers = (one.measured, one.low, one.high, one.reach, one.aim)
        rows.append([name, *map(_number, numbers), one.verdict])
    wide = max(len(row[0]) for row in rows)
    lines = []
    for name, *cells, verdict in rows:
        line = f"{name:{wide}}" + "".join(f"{cell:>10}" for cell in cells) + f"  {verdict}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def report(figures: list[Figure], path: Path | None) -> None:
    """Print the table, and write the figures as JSON where a path is given."""
    print(table(figures))
    if path is not None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def quiet() -> None:
    """Standard output is for figures; what runs log of themselves is left out."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
