"""A log whose worlds are damaged on purpose, and queries that ask for too much."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.schema import LOG_NAME, decode_snapshot
from rehearsal_room.viewer.reading.open_runs import run_id
from rehearsal_room.viewer.worlds.sql_box import query
from tests.support.cli import Rehearse
from tests.support.viewer_client import played, viewing

DAMAGE = {
    "header": lambda image: image[:100] + bytes(len(image) - 100),
    "cut": lambda image: image[:3_000],
    "schema": lambda image: image.replace(b"CREATE TABLE", b"CREATE TABBY"),
    "pages": lambda image: image[:4096] + b"\xff" * (len(image) - 4096),
}


@pytest.fixture(params=sorted(DAMAGE))
def damaged(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A run whose log has a damaged start state."""
    run = played(tmp_path / "run", "shop_support:cancel-duplicate", policy="oracle")
    with closing(sqlite3.connect(run / LOG_NAME)) as database:
        ((digest, data),) = database.execute("SELECT * FROM scenarios").fetchall()
        snapshot = decode_snapshot(data)
        image = DAMAGE[request.param](snapshot.image)
        changed = msgspec.msgpack.encode(msgspec.structs.replace(snapshot, image=image))
        database.execute(
            "UPDATE scenarios SET data = ? WHERE scenario_digest = ?", (changed, digest)
        )
        database.commit()
    return run


def test_verbs_say_one_sentence(rehearse: Rehearse, damaged: Path, tmp_path: Path) -> None:
    """No verb ends with a traceback, and what needs no world works."""
    for command in (
        ("show", damaged),
        ("show", damaged, "e000000"),
        ("failures", damaged),
        ("judge", damaged),
        ("replay", damaged),
        ("export", damaged, "--to", "jsonl", "--dumps", "-o", tmp_path / "a"),
        ("view", damaged, "--export", tmp_path / "a.html"),
    ):
        status, _, err = rehearse(*command)
        assert status in (0, 1, 2), err
        assert "Traceback" not in err
        if status == 2:
            assert err.count("error:") == 1


async def test_the_viewer_says_one_sentence(damaged: Path) -> None:
    """Pages of a damaged world are errors with a sentence; the run's other pages work."""
    base = f"/api/runs/{run_id(damaged)}"
    async with viewing(damaged) as client:
        assert await client.get(base)
        for path in ("", "/world?turn=0", "/world?turn=1", "/world/orders?turn=0", "/failures"):
            answer = await client.ask(f"{base}/episodes/e000000{path}")
            assert answer.status in (200, 400, 404), answer.body
            assert answer.status == 200 or answer.json["error"]
        asked: Any = {"sql": "SELECT * FROM orders", "turn": 0}
        answer = await client.ask(f"{base}/episodes/e000000/sql", method="POST", body=asked)
        assert answer.status in (200, 400)


def test_a_querys_values_are_bounded_together() -> None:
    """Rows of a megabyte each end after a few, and the result says that it is cut."""
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 900)"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        found = query(database, f"{many} SELECT zeroblob(900000) FROM n")
        assert found.truncated
        assert 0 < len(found.rows) < 10
        whole = query(database, f"{many} SELECT i FROM n")
        assert (len(whole.rows), whole.truncated) == (900, False)
        with pytest.raises(SettingsError):
            query(database, f"SELECT {', '.join(['zeroblob(900000)'] * 600)}")
