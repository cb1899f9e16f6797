"""Commands that run beside a test, as processes of their own."""

from pathlib import Path

from tests.support.warm_process import Child, WarmProcess

Started = tuple[Child, Path]  # a process, and the file of what it prints


class Commands:
    """Starts commands; each prints into a file of its own."""

    def __init__(self, warm: WarmProcess, folder: Path) -> None:
        self._warm = warm
        self._folder = folder
        self._num = 0

    def start(self, *arguments: object) -> Started:
        """Start `rehearse` with these arguments."""
        self._num += 1
        output = self._folder / f"output-{self._num}.txt"
        return self._warm.start_command(*arguments, output=output), output


def end_of(command: Started, *, status: int = 0) -> str:
    """What a command has printed that ends with this status."""
    child, output = command
    assert child.wait(60) == status, output.read_text()
    return output.read_text()
