"""What a command prints on a terminal of a given width."""

import io
from collections.abc import Callable

from rich.console import Console


def printed(render: Callable[[Console], None], width: int = 120) -> list[str]:
    """The printed lines, without the spaces at their ends."""
    console = Console(file=io.StringIO(), width=width)
    render(console)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]
