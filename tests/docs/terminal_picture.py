"""README's picture of the terminal.

    python -m tests.docs.terminal_picture docs/pictures/terminal.svg

It runs two commands and draws what they print. The drawing names no font to load.
"""

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.support.paths import ROOT

WIDTH = 100
COMMANDS = (  # each with the first and the last line to show (patterns)
    ("run shop_support -p mutant -n 60 -o runs/mutant", r"run folder", r"^completed +\d"),
    ("show runs/mutant e000003", r"^turn 4", r"guard: nothing else"),
)


def printed(command: str, folder: Path) -> str:
    """What the command prints on a terminal, with its colours."""
    done = subprocess.run(
        [sys.executable, "-m", "rehearsal_room", *command.split()],
        cwd=folder,
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "PYTHONPATH": f"{ROOT}/src"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def between(text: str, first: str, last: str) -> list[str]:
    """The lines from the first to the last that match."""
    lines = text.splitlines()
    plain = [Text.from_ansi(line).plain for line in lines]
    start = next(at for at, line in enumerate(plain) if re.search(first, line))
    end = next(at for at, line in enumerate(plain) if at > start and re.search(last, line))
    return lines[start : end + 1]


def draw(target: Path) -> None:
    """Run the commands in a new folder and write the drawing."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, (command, first, last) in enumerate(COMMANDS):
            if number:
                console.print()
            console.print(Text(f"$ rehearse {command}", style="bold"))
            for line in between(printed(command, Path(folder)), first, last):
                console.print(Text.from_ansi(line))
    drawing = console.export_svg(title="rehearse", theme=MONOKAI, unique_id="terminal")
    target.write_text(re.sub(r"@font-face \{.*?\}", "", drawing, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
