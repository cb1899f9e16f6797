"""Which attempts the gate holds equivalent in the world of an MCP server.

The rows are made up: they are what a server with ids of its own leaves.
"""

from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.judge.playback.attempts import only_server_values_differ
from rehearsal_room.judge.playback.playback import Played
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import Call
from tests.support.desk_worlds import desk


def played(calls: list[Call], *rows: tuple[str, str, dict[str, Any]]) -> Played:
    """An attempt that made rows: table, key, and the other columns."""
    changes = tuple(
        RowChange(table, (key,), None, {"id": key, **columns}) for table, key, columns in rows
    )
    nothing: Any = None
    return Played(nothing, nothing, tuple(calls), "Done.", (), changes, nothing)


ADD = Call("add_contact", {"name": "Ada"})
AT = {"at": "2026-03-02T09:00:01Z"}
LATER = {"at": "2026-03-02T09:00:02Z"}
PEOPLE = (("contacts", "C-71", {"name": "Ada"}), ("contacts", "C-72", {"name": "Bo"}))
OTHERS = (("contacts", "C-81", {"name": "Ada"}), ("contacts", "C-82", {"name": "Bo"}))


@pytest.mark.parametrize(
    ("oracle", "attempt", "is_same"),
    [
        ([("notes", "N-1", AT)], [("notes", "N-2", LATER)], True),
        ([("notes", "N-1", AT)], [("notes", "N-2", {"at": "2026-03-09T09:00:01Z"})], False),
        ([("notes", "N-1", AT)], [("notes", "N-1", AT), ("notes", "N-2", LATER)], False),
        (
            [*PEOPLE, ("notes", "N-1", {"who": "C-71"})],
            [*OTHERS, ("notes", "N-2", {"who": "C-81"})],
            True,
        ),
        (
            [*PEOPLE, ("notes", "N-1", {"who": "C-71"})],
            [*OTHERS, ("notes", "N-2", {"who": "C-82"})],
            False,
        ),
    ],
)
def test_only_what_the_server_makes_may_differ(
    tmp_path: Path, oracle: Any, attempt: Any, is_same: bool
) -> None:
    """Later times and other keys of new rows are the server's; another day, one row more, and a
    reference to another new row are not."""
    scenario = desk(tmp_path)
    pair = played([ADD], *attempt), played([ADD], *oracle)
    assert only_server_values_differ(*pair, scenario) is is_same


@pytest.mark.parametrize("column", ["id", "at"])
def test_what_a_call_gives_is_the_agents(tmp_path: Path, column: str) -> None:
    """A key or a time that the agent names is not the server's: another one is a mistake."""
    scenario = desk(tmp_path)
    first, second = ("N-1", "N-2") if column == "id" else (AT["at"], LATER["at"])
    attempts = []
    for value in (first, second):
        key, columns = (value, {"text": "x"}) if column == "id" else ("N-1", {"at": value})
        attempts.append(played([Call("add_note", {column: value})], ("notes", key, columns)))
    assert not only_server_values_differ(*attempts, scenario)
