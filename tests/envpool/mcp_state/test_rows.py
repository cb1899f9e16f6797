"""The order of changed rows."""

from rehearsal_room.envpool.mcp_state.folder_reader import SHAPE
from rehearsal_room.envpool.mcp_state.rows import row_writes
from rehearsal_room.envpool.mcp_state.types import TableShape


def test_changed_rows_come_by_key() -> None:
    """Rows come by their keys, whatever the hash seed of the process: written in this order, they
    give equal pages in every process."""
    names = [f"{number:03}.md" for number in range(100)]
    rows = {name: (name, "file", "text", None) for name in reversed(names)}
    new = [write.after for write in row_writes(SHAPE, {}, rows)]
    gone = [write.before for write in row_writes(SHAPE, rows, {})]
    assert new == gone == [rows[name] for name in names]
    numbers = TableShape("notes", (("id", "INTEGER"),), (0,), without_rowid=False)
    found = row_writes(numbers, {}, {number: (number,) for number in (300, -4, 20, 2**40)})
    assert [write.rowid for write in found] == [-4, 20, 300, 2**40]
