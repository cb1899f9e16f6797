"""Worlds in workers whose code changes the schema or has uncommon tables: all changes are exact."""

import msgspec

from rehearsal_room.envpool.workers.pool import OpenSpawner, WorkerPool, WorkerSettings
from rehearsal_room.scenarios.format import AwmTable, Scenario
from tests.support.hosted_records import HEAD, TABLES, small

UNCOMMON = (
    AwmTable(
        "lines",
        "CREATE TABLE lines (id INTEGER PRIMARY KEY, a REAL, b AS (a * 2), c AS (a + 1) STORED)",
    ),
    AwmTable("pairs", "CREATE TABLE pairs (x TEXT, y INTEGER, PRIMARY KEY (x, y)) WITHOUT ROWID"),
    AwmTable("words", "CREATE VIRTUAL TABLE words USING fts5(word)"),
    AwmTable("loose", "CREATE TABLE loose (x BLOB)"),
)
TOOL = """
from sqlalchemy import text


@app.post("/run", operation_id="run")
def run(sql: str):
    with engine.begin() as connection:
        for statement in sql.split(";"):
            connection.execute(text(statement))
    return "done"
"""
STEPS = (
    "INSERT INTO lines (a) VALUES (1.5); INSERT INTO lines (a) VALUES (2.5)",
    "UPDATE lines SET a = 7 WHERE id = 1; DELETE FROM lines WHERE id = 2",
    "INSERT INTO pairs VALUES ('p', 1); UPDATE pairs SET y = 2; INSERT INTO pairs VALUES ('p', 1)",
    "INSERT INTO words VALUES ('milk'); INSERT INTO words VALUES ('tea')",
    "INSERT INTO loose VALUES (x'00ff'); INSERT INTO loose VALUES (1); UPDATE loose SET x = 1",
    "DELETE FROM words WHERE word = 'tea'; INSERT INTO loose VALUES (1)",
    "CREATE TABLE extra (n INTEGER); INSERT INTO extra VALUES (1); INSERT INTO extra VALUES (2)",
    "ALTER TABLE loose ADD COLUMN y INTEGER DEFAULT 5; UPDATE loose SET y = 6",
    "INSERT INTO notes VALUES (1, 'one'); DELETE FROM extra WHERE n = 1",
    "DROP TABLE extra; DROP TABLE loose; DELETE FROM notes",
)


def scenario() -> Scenario:
    base = small(HEAD + TOOL)
    assert base.awm is not None
    awm = msgspec.structs.replace(base.awm, tables=(*TABLES, *UNCOMMON))
    return msgspec.structs.replace(base, awm=awm)


async def test_every_change_leads_to_its_digest(open_spawner: OpenSpawner) -> None:
    """The pool accepts each call, and the state after it has the reported digest."""
    async with (
        WorkerPool(WorkerSettings(workers=1), open_spawner=open_spawner) as pool,
        pool.lease(scenario(), None) as env,
    ):
        digests = [env.digest]
        for number, sql in enumerate(STEPS):
            result = await env.call("run", {"sql": sql}, f"c{number}-0")
            assert (result.error, result.text) == (None, '"done"'), sql
            assert result.changes, sql
            assert env.state().digest == result.digest
            digests.append(result.digest)
        assert len(set(digests)) == len(digests)
