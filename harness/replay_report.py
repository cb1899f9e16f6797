"""A replay's result for a reader at a terminal. What tools said is shown as text, never as
markup."""

from collections.abc import Iterable, Sequence

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.replay import (
    Called,
    Difference,
    Divergence,
    EpisodeChange,
    ReplayReport,
    WhatIfReport,
)

_MOST = 20  # divergences or changes shown; the JSON result has all
_LONGEST_CALL = 200  # characters
_VISIBLE = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def render_replay(report: ReplayReport, console: Console) -> None:
    """Whether a run replays, and where it does not."""
    head = Text(f"{_counted(report.episodes, 'episode')}, {_counted(report.calls, 'call')}: ")
    if report.divergences:
        head.append(_counted(len(report.divergences), "divergence"), "bold red")
    elif report.episodes:
        head.append("equal results and states at every step", "bold green")
    else:
        head.append("nothing to replay", "bold yellow")
    console.print(head)
    for divergence in report.divergences[:_MOST]:
        console.print()
        _print(console, _where(divergence), "bold")
        _render_sides(divergence, console)
    _render_more(len(report.divergences) - _MOST, "divergence", console)
    _render_left_out(report.cut_off, console)
    if report.windows_unchecked:
        episodes = _counted(report.windows_unchecked, "episode")
        _print(console, f"windows not compared in {episodes}: another history policy", "yellow")


def render_what_if(report: WhatIfReport, console: Console) -> None:
    """Which episodes and rewards a changed package would change."""
    episodes, calls = _counted(report.episodes, "episode"), _counted(report.calls, "call")
    _print(console, f"{report.scenario}: {episodes}, {calls} in the changed package", "bold")
    counts = Table(box=None, show_header=False, pad_edge=False)
    for name, value in (
        ("other results", str(report.results_changed)),
        ("other label", str(report.labels_changed)),
        ("other reward", str(report.rewards_changed)),
        (
            "mean reward",
            f"{_number(report.mean_reward_before)} -> {_number(report.mean_reward_after)}",
        ),
    ):
        counts.add_row(name, value)
    console.print(counts)
    if report.changes:
        console.print()
        console.print(_changes_table(report.changes[:_MOST]))
    _render_more(len(report.changes) - _MOST, "changed episode", console)
    for missing in report.missing_tasks:
        count = _counted(missing.episodes, "episode")
        _print(console, f"the changed package has no task {missing.task} ({count})", "yellow")
    if report.never_judged:
        count = _counted(report.never_judged, "episode")
        _print(console, f"{count} had no verdict: only results were compared", "yellow")
    if report.other_episodes:
        _print(console, f"{_counted(report.other_episodes, 'episode')} of other scenarios", "dim")
    _render_left_out(report.cut_off, console)


def _changes_table(changes: Sequence[EpisodeChange]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("episode", "task", "label", "reward", "first difference"):
        table.add_column(name, overflow="fold")
    for change in changes:
        label = _moved(change.label_before or "none", change.label_after or "none")
        reward = _moved(_number(change.reward_before), _number(change.reward_after))
        cells = (change.episode, change.task, label, reward, "\n".join(_first(change)))
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _first(change: EpisodeChange) -> Iterable[str]:
    if change.unjudged:
        yield f"unjudged: {_plain(change.unjudged)}"
    difference = change.first_difference
    if difference is not None:
        yield f"step {difference.step}: {_call(difference.call)}"
        yield f"{difference.what} was {_plain(difference.expected)}"
        yield f"and is {_plain(difference.found)}"


def _where(divergence: Divergence) -> str:
    """Example: episode e000003 (shop / void-7), step 2, call 0: text differs"""
    place = f"episode {divergence.episode} ({divergence.scenario} / {divergence.task})"
    if divergence.step is not None:
        place += f", step {divergence.step}"
    if divergence.call_index is not None:
        place += f", call {divergence.call_index}"
    return _plain(f"{place}: {divergence.what} differs")


def _render_sides(difference: Divergence | Difference, console: Console) -> None:
    sides = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 2))
    sides.add_column(style="dim")
    sides.add_column(overflow="fold")
    if difference.call is not None:
        sides.add_row("call", Text(_call(difference.call), "cyan"))
    sides.add_row("expected", Text(_plain(difference.expected)))
    sides.add_row("found", Text(_plain(difference.found), "red"))
    console.print(sides)


def _render_more(left: int, word: str, console: Console) -> None:
    if left > 0:
        _print(console, f"\nand {_counted(left, f'more {word}')}", "")


def _render_left_out(cut_off: int, console: Console) -> None:
    if cut_off:
        _print(console, f"{_counted(cut_off, 'episode')} without an end left out", "yellow")


def _print(console: Console, text: str, style: str) -> None:
    console.print(Text(text, style))


def _call(call: Called | None) -> str:
    if call is None:
        return ""
    arguments = msgspec.json.encode(call.arguments).decode()
    text = _plain(f"{call.name} {arguments}")
    return text if len(text) <= _LONGEST_CALL else f"{text[:_LONGEST_CALL]}…"


def _moved(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _plain(text: str) -> str:
    return text.translate(_VISIBLE)


def _counted(number: int, word: str) -> str:
    """Example: _counted(2, "call") -> "2 calls" """
    return f"{number:,} {word}{'' if number == 1 else 's'}"
