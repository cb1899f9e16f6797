"""A profile on a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rehearsal_room.harness.core.terminal_text import plural, printable
from rehearsal_room.harness.profile.report import Profile, ProfileReport, percent, title_of

_LONGEST_BAR = 40  # cells


def render_profiles(report: ProfileReport, console: Console) -> None:
    """Print the profile of each run, and of several their sum."""
    for profile in report.runs:
        _render(profile, console)
    if len(report.runs) > 1:
        _render(report, console)


def _render(profile: Profile, console: Console) -> None:
    head = (
        f"{profile.run}: {profile.wall_s:,.1f} s, {plural(profile.episodes, 'episode')} with "
        f"{plural(profile.turns, 'turn')} and {plural(profile.calls, 'call')}, "
        f"{profile.mean_live:,.1f} at once"
    )
    console.print(Text(printable(head, one_line=True), "bold"), soft_wrap=True)
    console.print(_table(profile))
    console.print(Text(printable(_sentence(profile.verdict), one_line=True)), soft_wrap=True)
    for note in profile.notes:
        console.print(Text(printable(_sentence(note), one_line=True), "dim"), soft_wrap=True)
    console.print()


def _table(profile: Profile) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right")
    table.add_column()
    of = ""
    for name, stage in profile.stages.items():
        if stage.of != of:
            of, is_wall = stage.of, stage.of == "wall"
            total = profile.wall_s if is_wall else profile.episode_s
            title = "of wall time" if is_wall else "of episode time"
            table.add_row(Text(title, "dim"), Text(f"{total:,.2f} s", "dim"), "", "")
        bar = Text("█" * round(_LONGEST_BAR * min(1.0, stage.share)), "cyan")
        seconds = f"{stage.seconds:,.2f} s"
        table.add_row(f"  {title_of(name)}", seconds, percent(stage.share), bar)
    return table


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
