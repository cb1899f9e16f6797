"""An interruption is answered with the exact command that continues the work."""

import json
import shlex
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from rehearsal_room.cli.core.interruption import Interrupted, command_line, continued_by
from rehearsal_room.harness.log.reader import open_reader
from tests.support.cli import Rehearse, json_of, without_trust_line
from tests.support.commands import Commands, end_of
from tests.support.followed_runs import until_num
from tests.support.ledger_world import write_package
from tests.support.paths import LIBRARY
from tests.support.warm_process import WarmProcess


def test_a_command_is_quoted_for_the_shell() -> None:
    """It can be typed, or pasted, as it is."""
    command = command_line("run", "-o", Path("runs/my run"), "--resume")
    assert command == "rehearse run -o 'runs/my run' --resume"
    assert shlex.split(command)[3] == "runs/my run"


def test_an_interruption_names_the_command() -> None:
    """Where nothing continues the work it names none; other errors pass."""
    for command, text in (
        ("rehearse label x", "interrupted; to continue: rehearse label x"),
        ("", "interrupted"),
    ):
        with pytest.raises(Interrupted) as caught, continued_by(lambda text=command: text):
            raise KeyboardInterrupt
        assert str(caught.value) == text
    with pytest.raises(ValueError, match="bug"), continued_by(str):
        raise ValueError("bug")


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have a function end as if the user had interrupted it."""

    def patch(name: str) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(name, interrupted)

    return patch


def test_a_run_that_has_begun_is_resumed(
    rehearse: Rehearse, tmp_path: Path, interrupt: Callable[[str], None]
) -> None:
    """Its folder and --resume are named; one that has not begun is not continued."""
    world, out = write_package(tmp_path / "ledger"), tmp_path / "run"
    interrupt("rehearsal_room.harness.setup.launching.play_left")
    status, _, err = rehearse("run", world, "-o", out)
    sentence = f"interrupted; to continue: rehearse run -o {out} --resume\n"
    assert (status, without_trust_line(err)) == (130, sentence)
    interrupt("rehearsal_room.harness.launch.planned")
    status, _, err = rehearse("run", world, "-o", tmp_path / "other")
    assert (status, err) == (130, "interrupted\n")


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_sigterm_ends_a_run_as_an_interruption(
    warm_cli: WarmProcess, rehearse: Rehearse, tmp_path: Path, processes: int
) -> None:
    """Slurm, Kubernetes and `docker stop` send it, to one process or to all of them: every episode
    is logged as cancelled, the last line says how to go on, and --resume does."""
    out, commands = tmp_path / "run", Commands(warm_cli, tmp_path)
    flags = ("-p", "oracle", "-n", 30, "-c", 4, "--think", "0.05", "--processes", processes)
    child, output = commands.start("run", LIBRARY, *flags, "-o", out)
    until_num(out, "ended", 5)
    everyone = psutil.Process(child.pid)
    for process in [*everyone.children(recursive=True), everyone]:
        process.send_signal(signal.SIGTERM)
    last = end_of((child, output), status=130).splitlines()[-1]
    assert last == f"interrupted; to continue: rehearse run -o {out} --resume"
    with open_reader(out) as reader:
        counts = reader.counts()
    assert counts["started"] == counts["ended"] < 30
    assert json_of(rehearse, "run", "-o", out, "--resume")["labels"] == {"completed": 30}


def test_a_judging_goes_on_with_what_is_unjudged(
    rehearse: Rehearse, tmp_path: Path, interrupt: Callable[[str], None]
) -> None:
    """The judge's flags are in the run's folder already."""
    world, out = write_package(tmp_path / "ledger"), tmp_path / "run"
    json_of(rehearse, "run", world, "-o", out)
    interrupt("rehearsal_room.cli.trust.judge.run")
    status, _, err = rehearse("judge", out)
    command = f"rehearse judge {out} --only unjudged"
    assert (status, err) == (130, f"interrupted; to continue: {command}\n")


def test_a_generation_is_continued_by_the_same_command(
    rehearse: Rehearse, tmp_path: Path, interrupt: Callable[[str], None]
) -> None:
    """As it was typed."""
    interrupt("rehearsal_room.cli.worlds.generate.generate_worlds")
    command = ("worlds", "generate", "--count", 3, "-o", tmp_path / "w")
    status, _, err = rehearse(*command)
    typed = f"rehearse worlds generate --count 3 -o {tmp_path / 'w'}"
    assert (status, err) == (130, f"interrupted; to continue: {typed}\n")


def test_lines_of_a_script_that_are_not_played_are_counted(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """With the flag that plays them; where all are played there is no note."""
    world, script = write_package(tmp_path / "ledger"), tmp_path / "script.jsonl"
    line = {"scenario": "ledger", "task": "open", "calls": [], "answer": "Opened."}
    script.write_text("\n".join([json.dumps(line)] * 3))
    command = ("run", f"{world}:open", "-p", "scripted", "--script", script)
    status, _, err = rehearse(*command, "-o", tmp_path / "one")
    note = f"{script}: 2 of 3 lines are not played; -g 3 plays every line of a task\n"
    assert (status, without_trust_line(err)) == (0, note)
    _, _, err = rehearse(*command, "-g", 3, "-o", tmp_path / "three")
    assert without_trust_line(err) == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_a_completion_script(rehearse: Rehearse, shell: str) -> None:
    """The script asks the command itself."""
    status, out, err = rehearse("completion", shell)
    assert (status, err) == (0, "")
    assert "_REHEARSE_COMPLETE" in out and f"{shell}_complete" in out
