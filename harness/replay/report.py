"""The result of a replay on a terminal. Texts of tools are shown as plain text: markup in them has
no effect."""

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rehearsal_room.harness.core.terminal_text import plural, printable
from rehearsal_room.harness.replay.episode import LoggedCall, ReplayDifference
from rehearsal_room.harness.replay.run import (
    Divergence,
    EpisodeChange,
    ReplayReport,
    WhatIfReport,
)
from rehearsal_room.scenarios.core.short_text import shortened

_MAX_SHOWN = 20  # divergences or changes; the JSON result has all
_LONGEST_CALL = 200  # characters


def render_replay(report: ReplayReport, console: Console) -> None:
    """Print whether a run replays, and where it does not."""
    head = Text(f"{plural(report.episodes, 'episode')}, {plural(report.calls, 'call')}: ")
    if report.divergences:
        head.append(plural(len(report.divergences), "divergence"), "bold red")
    elif report.episodes:
        head.append("equal results and states at every step", "bold green")
    else:
        head.append("nothing to replay", "bold yellow")
    console.print(head)
    for divergence in report.divergences[:_MAX_SHOWN]:
        console.print()
        _print(console, _where(divergence), "bold")
        _render_sides(divergence, console)
    _render_more(len(report.divergences) - _MAX_SHOWN, "divergence", console)
    if report.unknown_worlds:
        left_out = plural(report.unknown_worlds, "episode")
        _print(console, f"{left_out} of imported, unknown worlds left out", "yellow")
    _render_left_out(report.cut_off, console)
    if report.own_ids:
        ids = plural(report.own_ids, "id")
        _print(console, f"{ids} or times of a server's own stood for the logged ones", "yellow")
    if report.windows_unchecked:
        episodes = plural(report.windows_unchecked, "episode")
        _print(console, f"windows not compared in {episodes}: another history window", "yellow")


def render_what_if(report: WhatIfReport, console: Console) -> None:
    """Print which episodes and rewards a changed package would change."""
    episodes, calls = plural(report.episodes, "episode"), plural(report.calls, "call")
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
    for change in report.changes[:_MAX_SHOWN]:
        console.print()
        _render_change(change, console)
    _render_more(len(report.changes) - _MAX_SHOWN, "changed episode", console)
    for missing in report.missing_tasks:
        count = plural(missing.episodes, "episode")
        _print(console, f"the changed package has no task {missing.task} ({count})", "yellow")
    if report.never_judged:
        count = plural(report.never_judged, "episode")
        _print(console, f"{count} had no verdict: only results were compared", "yellow")
    if report.other_episodes:
        _print(console, f"{plural(report.other_episodes, 'episode')} of other scenarios", "dim")
    _render_left_out(report.cut_off, console)


def _render_change(change: EpisodeChange, console: Console) -> None:
    label = _before_after(change.label_before or "none", change.label_after or "none")
    reward = _before_after(_number(change.reward_before), _number(change.reward_after))
    head = f"episode {change.episode} ({change.task}): {label}, reward {reward}"
    _print(console, _plain(head), "bold")
    if change.unjudged:
        _print(console, f"  unjudged now: {_plain(change.unjudged)}", "yellow")
    difference = change.first_difference
    if difference is not None:
        _print(console, f"  first at {_position(difference)}: {difference.what} differs", "")
        _render_sides(difference, console)


def _where(divergence: Divergence) -> str:
    """Example: episode e000003 (shop / void-7), step 2, call 0: text differs"""
    episode = f"episode {divergence.episode} ({divergence.scenario} / {divergence.task})"
    position = _position(divergence)
    return _plain(f"{episode}{f', {position}' if position else ''}: {divergence.what} differs")


def _position(difference: Divergence | ReplayDifference) -> str:
    """Example: step 2, call 0"""
    parts = (("step", difference.step), ("call", difference.call_index))
    return ", ".join(f"{word} {number}" for word, number in parts if number is not None)


def _render_sides(difference: Divergence | ReplayDifference, console: Console) -> None:
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
        _print(console, f"\nand {plural(left, f'more {word}')}", "")


def _render_left_out(cut_off: int, console: Console) -> None:
    if cut_off:
        _print(console, f"{plural(cut_off, 'episode')} without an end left out", "yellow")


def _print(console: Console, text: str, style: str) -> None:
    console.print(Text(text, style))


def _call(call: LoggedCall | None) -> str:
    if call is None:
        return ""
    arguments = msgspec.json.encode(call.arguments).decode()
    return shortened(_plain(f"{call.name} {arguments}"), _LONGEST_CALL)


def _before_after(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _plain(text: str) -> str:
    return printable(text, one_line=True)
