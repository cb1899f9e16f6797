"""A campaign of mutated inputs against the command line: what each input did.

An input is made by its target and its number alone, so a fault can be made again. Each command runs
in a child of a process that has imported everything, with a folder of its own. A fault is an exit
status other than 0, 1 and 2, a traceback, an output that a terminal would obey, a command that does
not end, or an output that is half written.

    python -m tests.fuzz                    (3,000 inputs, a table, and each fault)
    python -m tests.fuzz TARGET NUMBER      (one input again, with what it printed)
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from rehearsal_room.harness.core.errors import HarnessError
from rehearsal_room.harness.core.terminal_text import printable
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.format import read
from tests.support.warm_process import WarmProcess

_SECONDS = 60.0  # after which a command is one that does not end
BEFORE = b'"what was there before"\n'


@dataclass(frozen=True)
class Target:
    """What is mutated, and the command that reads it."""

    name: str
    # Writes the mutated input into an empty folder, and gives the words of the command.
    prepare: Callable[[Path, Random], Sequence[str]]


@dataclass
class Tally:
    """What the inputs of one target did."""

    statuses: dict[int, int] = field(default_factory=lambda: dict.fromkeys((0, 1, 2), 0))
    faults: list[str] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        """Their number."""
        return sum(self.statuses.values())


def play(target: Target, number: int, warm: WarmProcess, folder: Path) -> tuple[int, str, str]:
    """Run one input in the folder; the exit status, the output, and the fault (empty: none)."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    words = target.prepare(folder, Random(f"{target.name} {number}"))
    result = folder / "result.json"
    result.write_bytes(BEFORE)
    output = folder / "output"
    child = warm.start_command(*words, output=output, folder=str(folder))
    try:
        status = child.wait(_SECONDS)
    except TimeoutError:
        child.kill()
        return 124, "", "it does not end"
    text = output.read_bytes().decode(errors="surrogateescape")
    return status, text, fault_of(status, text, folder)


def fault_of(status: int, text: str, folder: Path) -> str:
    """What a command did that none may do; empty: nothing."""
    if status not in (0, 1, 2):
        return f"exit status {status}"
    if "Traceback (most recent call last)" in text:
        return "a traceback"
    if printable(text) != text:
        return "an output that a terminal obeys"
    if status == 2 and not text.strip():
        return "no sentence"
    return next(_half_written(status, folder), "")


def _half_written(status: int, folder: Path) -> Iterator[str]:
    """What is not whole in the folder after a command."""
    result = (folder / "result.json").read_bytes()
    if result != BEFORE:
        if status == 2:
            yield "a command that refused its input wrote its result"
        try:
            json.loads(result)
        except ValueError:
            yield "result.json is half written"
    for log in folder.rglob("episodes.sqlite"):
        try:
            with open_reader(log.parent) as reader:
                reader.episodes()
        except HarnessError as exc:
            yield f"the run cannot be opened: {exc}"
    for package in (folder / "imported").glob("*"):
        try:
            read(package)
        except ScenarioError as exc:
            yield f"an imported world is half written: {exc}"
    for export in folder.glob("export.jsonl"):
        try:
            [json.loads(line) for line in export.read_bytes().splitlines()]
        except ValueError:
            yield "the export is half written"
    for left in folder.rglob("*.tmp*"):
        yield f"{left.name} was left"


def campaign(
    targets: Sequence[Target], numbers: Sequence[int], warm: WarmProcess, folder: Path
) -> dict[str, Tally]:
    """Play each target's inputs of these numbers; the tallies by the targets' names."""
    tallies = {}
    for target in targets:
        tally = tallies[target.name] = Tally()
        for number in numbers:
            status, text, fault = play(target, number, warm, folder / target.name)
            tally.statuses[status] = tally.statuses.get(status, 0) + 1
            if fault:
                last = text.strip().splitlines()[-1:] or [""]
                tally.faults.append(f"{target.name} {number}: {fault}: {printable(last[0])[:300]}")
    return tallies
