"""Which turn is to blame, on a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rehearsal_room.harness.core.terminal_text import plural, printable
from rehearsal_room.judge.blame.report import Blame, OracleWord, Rescue, RescueKind, TurnState

_WORDS: dict[OracleWord, str] = {
    "goes_on": "completes",
    "puts_right": "puts right",
    "lost": "no way",
    "unknown": "",
}
_KINDS: dict[RescueKind, str] = {
    "argument": "another argument",
    "arguments": "other arguments",
    "drop": "without the call",
    "insert": "with what is missing before it",
    "replace": "another call",
    "answer": "another answer",
    "put_right": "calls that put right what was done",
}


def render_blame(found: Blame, console: Console) -> None:
    """Print the states, the blamed turn and its rescue."""
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("turn")
    table.add_column("what the agent did", overflow="fold", ratio=1)
    table.add_column("chance before it", no_wrap=True)
    table.add_column("oracle before it", no_wrap=True)
    for number, action in enumerate(found.actions):
        state = found.states[number] if number < len(found.states) else None
        mark = "bold red" if number == found.blamed else ""
        table.add_row(
            Text(str(number + 1), style=mark),
            Text(printable(action, one_line=True), style=mark),
            "" if state is None else chance_text(state),
            "" if state is None else _WORDS[state.oracle],
        )
    console.print(table)
    console.print()
    for line in lines_of(found):
        console.print(Text(printable(line)), soft_wrap=True)


def lines_of(found: Blame) -> list[str]:
    """What is said below the table."""
    lines = []
    if found.blamed is None:
        lines.append(f"no turn can be blamed: {found.why}")
    else:
        lines.append(f"turn {found.blamed + 1} is to blame: {found.why}")
    if found.rescue is not None:
        lines += [*_rescue_lines(found.rescue)]
    elif found.blamed is not None and found.wrong_since is not None:
        lines.append("no edit of this turn was found with which the oracle completes the task")
    lines += [f"note: {one}" for one in found.notes]
    if found.kept:
        lines.append(f"the forks are in {found.kept}")
    return lines


def _rescue_lines(rescue: Rescue) -> list[str]:
    return [
        f"the smallest edit that rescues it ({_KINDS[rescue.kind]}): {rescue.instead}",
        f"  {rescue.command}",
    ]


def chance_text(state: TurnState) -> str:
    """Example: "75% (35 to 97), 6 of 8"."""
    if state.chance is None:
        return f"none of {plural(state.ungraded, 'fork')} has a verdict" if state.ungraded else ""
    one = state.chance
    text = f"{one.value:.0%} ({100 * one.lower:.0f} to {100 * one.upper:.0f})"
    counted = f"{text}, {state.completed} of {state.graded}"
    return f"{counted}, {state.ungraded} without a verdict" if state.ungraded else counted
