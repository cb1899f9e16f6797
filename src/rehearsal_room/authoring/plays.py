"""Plays: who has played tasks of a package, and which of them they completed.

A package may have a file plays.toml. `rehearse worlds report` shows it; nothing else reads it,
and it does not belong to the package's digest.

    [[played]]
    by = "Claude"
    on = "2026-11-23"
    max_steps = 80
    completed = ["blocked-rack", "crushed-box"]
    failed = ["storm-week"]

Who plays has the rules, the tools and the records, as an agent has them (`rehearse play`).
A fault raises PackageError with a sentence that names the file and the field.
"""

from typing import Annotated

import msgspec

from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.files import convert, parse_toml, read_text
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.nearest import did_you_mean

PLAYS = "plays.toml"


class PlayerResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one player did, one attempt at each task."""

    by: Annotated[str, msgspec.Meta(min_length=1)]  # the model or "a person"
    on: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    max_steps: Annotated[int, msgspec.Meta(ge=1)]  # calls per task
    completed: tuple[str, ...] = ()  # ids of tasks
    failed: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Example: "Claude completed 1 of 2 tasks in at most 80 calls each (2026-11-23)." """
        done, total = len(self.completed), len(self.completed) + len(self.failed)
        failed = f"; failed: {', '.join(self.failed)}" if self.failed else ""
        return (
            f"{self.by} completed {done} of {total} tasks in at most {self.max_steps} calls each"
            f" ({self.on}){failed}."
        )


class _Plays(msgspec.Struct, forbid_unknown_fields=True):
    """The content of plays.toml."""

    played: tuple[PlayerResult, ...]


def plays_of(scenario: Scenario) -> tuple[PlayerResult, ...]:
    """The plays of a package; none where it has no such file. Raises PackageError."""
    path = scenario.path / PLAYS
    if scenario.awm is not None or not path.exists():
        return ()
    plays = convert(path, parse_toml(path, read_text(path)), _Plays).played
    ids = [task.id for task in scenario.tasks]
    for index, play in enumerate(plays):
        for name in (*play.completed, *play.failed):
            if name not in ids:
                raise PackageError(
                    f"{path}: played[{index}]: the package has no task {name!r}"
                    f"{did_you_mean(name, ids)}"
                )
    return plays
