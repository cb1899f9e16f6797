"""What to type after an interruption or an outage: the exact command that continues the work."""

import shlex
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click

from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.core.errors import ModelOutageError
from rehearsal_room.harness.core.terminal_text import printable


class Interrupted(click.Abort):
    """The user interrupted a command. `command` continues its work; empty: nothing does."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self.command = command

    def __str__(self) -> str:
        return f"interrupted; to continue: {self.command}" if self.command else "interrupted"


@contextmanager
def continued_by(command: Callable[[], str]) -> Generator[None]:
    """A block whose interruption, by Ctrl-C or SIGTERM, names the command that continues its work;
    `command` makes it once the block has been left."""
    try:
        with _terminated_as_interrupted():
            yield
    except KeyboardInterrupt as exc:
        raise Interrupted(command()) from exc


@contextmanager
def _terminated_as_interrupted() -> Generator[None]:
    """A block in which SIGTERM raises KeyboardInterrupt. An event loop in it has its own way (see
    harness.rollout.process)."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def command_line(*words: object) -> str:
    """A command as it is typed.

    Example: ("run", "-o", "runs/my run", "--resume") -> "rehearse run -o 'runs/my run' --resume"
    """
    return shlex.join(["rehearse", *map(str, words)])


def same_command(bus: str | None = None) -> str:
    """The command that was given, without the password in the URL of its broker (None: it names
    none)."""
    if bus is None:
        return command_line(*sys.argv[1:])
    public = MqttSettings(url=bus).public().url
    return command_line(*(word.replace(bus, public) for word in sys.argv[1:]))


def resumed_run(folder: Path) -> str:
    """The command that continues a run; empty where the run has not begun."""
    begun = (folder / "run.toml").exists()
    return command_line("run", "-o", folder, "--resume") if begun else ""


def stop_for_outage(outage: ModelOutageError, command: str = "") -> NoReturn:
    """Print in one sentence that the model server went away, and end with exit status 1. `command`
    continues the work; empty: nothing does."""
    hint = f"; to continue: {command}" if command else ""
    click.echo(f"error: {printable(str(outage))}: the run was stopped{hint}", err=True)
    sys.exit(1)
