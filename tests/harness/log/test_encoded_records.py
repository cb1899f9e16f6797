"""Records that another process has encoded, in the log."""

from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import encoded
from rehearsal_room.harness.log.writer import Entry, open_log
from tests.support.events import episode


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_encoded_records_are_stored_and_handed_on_like_others(tmp_path: Path) -> None:
    """Encoded records and others make one log in the order in which they came; those who want
    records get records, and those who do not get what was appended."""
    records = [*episode("e1", 3), *episode("e2", 2)]
    mixed: list[Any] = [encoded(one) if number % 2 else one for number, one in enumerate(records)]
    committed: list[tuple[int, Record]] = []
    entries: list[Entry] = []
    async with open_log(tmp_path) as log:
        log.on_commit(committed.extend)
        log.on_commit_entries(entries.extend)
        for number, entry in enumerate(mixed, 1):
            if isinstance(entry, Record):
                log.append(entry)
            else:
                assert log.append_encoded([entry]) == number
        assert await log.flush() == log.durable == len(records)
    assert committed == list(enumerate(records, 1))
    assert entries == mixed
    with open_reader(tmp_path) as reader:
        assert reader.records_after(0) == committed
