"""The report on a synthesis."""

from io import StringIO
from pathlib import Path

import msgspec
from rich.console import Console

from rehearsal_room.scenarios.synth.report import DroppedTask, render, report_of
from rehearsal_room.scenarios.synth.stages.ideas import IdeaPool
from rehearsal_room.scenarios.synth.storage.output_folder import SynthesisFolder
from rehearsal_room.scenarios.synth.storage.spending import SpendingLedger


def test_a_report_cannot_control_the_terminal() -> None:
    """A model's text is shown without its control characters."""
    pool, folder = IdeaPool(0.85, 80), SynthesisFolder(Path("nowhere"))
    report = msgspec.structs.replace(
        report_of(pool, (), folder, SpendingLedger(Path("none")), stopped="x"),
        dropped=(DroppedTask("w", "t", "a\x1b]0;b\x07\nc"),),
    )
    console = Console(file=StringIO(), width=200)
    render(report, console)
    assert isinstance(console.file, StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert lines[-2:] == ["dropped w/t: a\ufffd]0;b\ufffd c", "unfinished x"]
