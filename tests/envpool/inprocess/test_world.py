"""One hosted scenario: calls that change all or nothing, ids, forks, states."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import msgspec
import pytest

from rehearsal_room.envpool.core.errors import SeedError, StateError
from rehearsal_room.envpool.core.types import StoredState, ToolErrorKind, ToolResult
from rehearsal_room.envpool.inprocess.world import HostedScenario, Lease
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import read
from tests.support.ledger_world import ledger
from tests.support.paths import LIBRARY

_AT = "2026-03-14T09:30:00Z"


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedScenario]:
    hosted = HostedScenario(ledger(tmp_path_factory.mktemp("worlds")), max_steps=1_000_000)
    yield hosted
    hosted.close()


def rows(lease: Lease, sql: str) -> list[Any]:
    """The rows of a query on a lease's state."""
    _, after = lease.world.states(lease.state())
    return [tuple(row.values()) for row in after.all(sql)]


def test_a_result_holds_all_effects(world: HostedScenario) -> None:
    """A result holds the text, the changed rows, those of triggers included, and the digest."""
    lease = world.lease()
    result = lease.call("book", {"account_id": 2, "amount": 7, "note": "é"})
    account = {"id": 2, "name": "bank", "balance": 5000, "rate": 2.0}
    entry = {"id": 2, "account_id": 2, "amount": 7, "note": "é", "at": _AT}
    assert result == ToolResult(
        '{"entry":2}',
        None,
        (
            RowChange("accounts", (2,), account, account | {"balance": 5007}),
            RowChange("entries", (2,), None, entry),
            RowChange("journal", (2,), None, {"what": "entry 2"}),
        ),
        lease.digest,
    )
    assert world.verify_digest(lease.overlay) == lease.digest != lease.start_digest


def test_time_is_the_scenarios(world: HostedScenario) -> None:
    """SQLite's clock in a tool is the scenario's."""
    result = world.lease().call("open_account", {"name": "petty"})
    assert msgspec.json.decode(result.text) == {"id": 4, "at": "2026-03-14 09:30:00"}


_FAILING: dict[str, tuple[dict[str, Any], ToolErrorKind, str]] = {
    "nothing": ({}, "unknown_tool", "There is no tool 'nothing'. Tools: get_account, "),
    "book": (
        {"account_id": "1"},
        "arguments",
        "book: argument 'account_id': expected int, got str.",
    ),
    "set_value": (
        {"name": "x", "value": 2**63},
        "arguments",
        "set_value: argument 'value': an integer is larger than 64 bits.",
    ),
    "open_account": (
        {"name": "\ud800"},
        "arguments",
        "open_account: argument 'name': half of a surrogate pair is not Unicode text.",
    ),
    "close_account": ({"account_id": 1}, "refused", "Account 1 still holds 110."),
    "broken": ({}, "internal", "broken failed with an internal error: KeyError: 'nothing here'"),
    "bad_data": ({}, "internal", "bad_data failed with an internal error: TypeError: "),
    "bad_text": ({}, "internal", "bad_text failed with an internal error: UnicodeDecodeError: "),
    "surrogate": (
        {"refuse": False},
        "internal",
        "surrogate failed with an internal error: Unicode",
    ),
    "runaway": ({}, "timeout", "runaway took too long and was stopped."),
    "chance": ({}, "internal", "chance failed with an internal error: ValueError: random() and"),
    "end_early": ({}, "internal", "end_early failed with an internal error: ConstraintError: "),
}


@pytest.mark.parametrize("name", _FAILING)
def test_a_failed_call_changes_nothing(world: HostedScenario, name: str) -> None:
    """A call that is refused, breaks, never ends or returns bad data leaves digest, pages and dump
    unchanged, and the next call works."""
    arguments, error, text = _FAILING[name]
    lease = world.lease()
    lease.call("book", {"account_id": 2, "amount": 1})
    before = (lease.digest, lease.state(), world.dump(lease.overlay))
    result = lease.call(name, arguments)
    assert (result.error, result.changes, result.digest) == (error, (), before[0])
    assert result.text.startswith(text)
    msgspec.msgpack.encode(result)
    assert (lease.digest, lease.state(), world.dump(lease.overlay)) == before
    assert lease.call("book", {"account_id": 2, "amount": 1}).text == '{"entry":3}'
    assert world.verify_digest(lease.overlay) == lease.digest


@pytest.mark.parametrize(
    "sql",
    [
        "COMMIT",
        "ROLLBACK",
        "END",
        "BEGIN",
        "DROP TABLE tags",
        "CREATE TABLE x (a)",
        "CREATE INDEX x ON tags (tag)",
        "CREATE VIEW x AS SELECT 1",
        "CREATE TRIGGER x AFTER INSERT ON tags BEGIN SELECT 1; END",
        "CREATE TEMP TABLE x (a)",
        "ALTER TABLE tags ADD COLUMN x",
        "PRAGMA foreign_keys=OFF",
        "ATTACH ':memory:' AS x",
        "DETACH main",
        "REINDEX",
        "ANALYZE",
        "VACUUM",
        "INSERT INTO sqlite_schema VALUES (1, 2, 3, 4, 5)",
        "INSERT INTO journal VALUES (hex(randomblob(4)))",
    ],
)
def test_denied_sql(world: HostedScenario, sql: str) -> None:
    """Statements on transactions, schema, settings and other files are denied, and undo the
    call."""
    lease = world.lease()
    result = lease.call("forbidden", {"sql": sql})
    assert (result.error, lease.digest) == ("internal", world.start_digest)
    assert not lease.overlay.pages
    assert lease.call("wipe", {}).text == "1"


def test_any_refusal_can_be_logged(world: HostedScenario) -> None:
    """Half a character in the text of a refusal is replaced."""
    result = world.lease().call("surrogate", {"refuse": True})
    assert (result.error, result.text) == ("refused", "?")


def test_a_world_never_shows_another(world: HostedScenario) -> None:
    """A tool that keeps an exception, with its open queries, does not keep the connection on its
    own world."""
    first, second = world.lease(), world.lease()
    assert first.call("keep_failure", {}).text == "kept"
    first.call("book", {"account_id": 1, "amount": 5})
    assert second.call("book", {"account_id": 1, "amount": 7}).text == '{"entry":2}'
    assert rows(second, "SELECT balance FROM accounts WHERE id = 1") == [(117,)]
    for lease in (first, second):
        assert world.verify_digest(lease.overlay) == lease.digest


def test_a_call_does_not_see_what_others_inserted(world: HostedScenario) -> None:
    """last_insert_rowid() reports the call's own rows only, so that a replay gives the same."""
    world.lease().call("book", {"account_id": 1, "amount": 5})
    assert world.lease().call("newest", {}).text == "0"


def test_a_caught_error_is_not_a_failure(world: HostedScenario) -> None:
    """A tool may catch an SQLite error, continue, and keep its writes."""
    lease = world.lease()
    result = lease.call("go_on", {"account_id": 3})
    assert result.error is None
    assert result.changes == (RowChange("journal", (2,), None, {"what": "went on"}),)


def test_a_tool_may_use_savepoints(world: HostedScenario) -> None:
    """Writes that a tool rolls back to a savepoint are not changes."""
    result = world.lease().call("half", {"note": "n"})
    assert result.changes == (RowChange("journal", (2,), None, {"what": "kept: n"}),)


def test_a_row_is_identified_by_its_key(world: HostedScenario) -> None:
    """A row replaced under its key is one changed row; a changed key removes one row and adds
    another, with NULL and letter case included."""
    lease = world.lease()
    limit, blob = {"name": "limit", "value": 1000}, {"name": "blob", "value": b"\0\xff"}
    assert lease.call("set_value", {"name": "limit", "value": 1000.0}).changes == (
        RowChange("settings", ("limit",), limit, {"name": "limit", "value": 1000.0}),
    )
    assert lease.call("set_value", {"name": "limit", "value": 1000}).changes != ()
    assert lease.call("set_value", {"name": "limit", "value": 1000}).changes == ()
    assert lease.call("rename_value", {"old": "limit", "new": "blob"}).changes == (
        RowChange("settings", ("blob",), blob, {"name": "blob", "value": 1000}),
        RowChange("settings", ("limit",), limit, None),
    )
    (removed, nameless) = lease.call("rename_value", {"old": "blob", "new": None}).changes
    assert sorted([len(removed.key), len(nameless.key)]) == [1, 2]
    alias = {"alias": "Kasse", "account_id": 1}
    assert lease.call("recase", {"alias": "kasse", "new": "KASSE"}).changes == (
        RowChange("aliases", ("KASSE",), None, {"alias": "KASSE", "account_id": 1}),
        RowChange("aliases", ("Kasse",), alias, None),
    )
    assert world.verify_digest(lease.overlay) == lease.digest


def test_a_delete_cascades_into_the_changes(world: HostedScenario) -> None:
    """Rows that a cascade deletes are changes like all others."""
    lease = world.lease()
    lease.call("book", {"account_id": 1, "amount": -110})
    assert [(c.table, c.key) for c in lease.call("close_account", {"account_id": 1}).changes] == [
        ("accounts", (1,)),
        ("entries", (1,)),
        ("entries", (2,)),
    ]


def test_a_call_id_is_executed_once(world: HostedScenario) -> None:
    """A repeated call id returns the remembered result, failures included; another id, or none, is
    a new call; only the last few ids are remembered."""
    lease = world.lease()
    booking = {"account_id": 1, "amount": 1}
    first = lease.call("book", booking, "c0-0")
    assert lease.call("book", booking, "c0-0") is first
    refused = lease.call("close_account", {"account_id": 1}, "c1-0")
    assert lease.call("close_account", {"account_id": 1}, "c1-0") is refused
    assert lease.call("book", booking, "c2-0").text == '{"entry":3}'
    assert lease.call("book", booking).text == '{"entry":4}'
    assert lease.call("book", booking).text == '{"entry":5}'
    for number in range(3, 10):
        lease.call("get_account", {"account_id": 1}, f"c{number}-0")
    assert lease.call("book", booking, "c2-0").text == '{"entry":3}'
    lease.call("get_account", {"account_id": 1}, "c10-0")
    assert lease.call("book", booking, "c2-0").text == '{"entry":6}'
    lease.reset()
    assert lease.call("book", booking, "c2-0").text == '{"entry":2}'


def test_a_fork_is_independent(world: HostedScenario) -> None:
    """A fork starts at its parent's state; neither sees later changes of the other."""
    parent = world.lease()
    parent.call("book", {"account_id": 1, "amount": 1})
    fork = parent.fork()
    assert (fork.digest, fork.state()) == (parent.digest, parent.state())
    fork.call("book", {"account_id": 1, "amount": 2})
    parent.call("wipe", {})
    assert rows(parent, "SELECT balance FROM accounts WHERE id = 1") == [(111,)]
    assert rows(fork, "SELECT balance FROM accounts WHERE id = 1") == [(113,)]
    assert rows(parent, "SELECT count(*) FROM journal") == [(0,)]
    assert rows(fork, "SELECT count(*) FROM journal") == [(3,)]


def test_a_reset_is_a_fresh_start(world: HostedScenario) -> None:
    """After a reset a lease equals a new one."""
    lease = world.lease()
    lease.call("book", {"account_id": 1, "amount": 1})
    lease.reset()
    assert lease.state() == world.lease().state()
    assert lease.state() == StoredState(
        world.template.digest, {}, len(world.template.pages), world.start_digest
    )


def test_states_before_and_after(world: HostedScenario) -> None:
    """A stored state is read beside the start state, with the row changes between them."""
    lease = world.lease()
    changes = lease.call("set_value", {"name": "limit", "value": "x"}).changes
    before, after = world.states(lease.state())
    query = "SELECT value FROM settings WHERE name = ?"
    assert (before.value(query, "limit"), after.value(query, "limit")) == (1000, "x")
    assert (before.now, after.user.name) == (_AT, "Ada Lindqvist")
    assert (before.changes, after.changes) == ((), changes)
    _, logged = world.states(lease.state(), changes=())
    assert logged.changes == ()
    with pytest.raises(Exception, match="readonly"):
        after.all("DELETE FROM settings")


def test_a_state_of_another_template_is_refused(world: HostedScenario) -> None:
    """Pages of another template are an error."""
    state = msgspec.structs.replace(world.lease().state(), template="0" * 32)
    with pytest.raises(StateError) as caught:
        world.restored(state)
    assert str(caught.value) == (
        f"the state belongs to template {'0' * 32}, but scenario 'ledger' has template "
        f"{world.template.digest}"
    )


def test_two_hosts_agree(world: HostedScenario, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same package hosted twice starts with the same digest and reads the other's states."""
    other = HostedScenario(ledger(tmp_path_factory.mktemp("other")))
    lease = world.lease()
    lease.call("grow", {"num": 20, "size": 900})
    assert other.start_digest == world.start_digest
    restored = other.restored(
        msgspec.json.decode(msgspec.json.encode(lease.state()), type=StoredState)
    )
    assert other.dump(restored) == world.dump(lease.overlay)
    assert other.verify_digest(restored) == lease.digest
    other.close()


def test_a_world_leaves_nothing(tmp_path: Path) -> None:
    """A world that is closed, or cannot be built, leaves no file system registered."""
    before = apsw.vfs_names()
    with pytest.raises(SeedError):
        HostedScenario(ledger(tmp_path / "broken", data_sql="nonsense;"))
    hosted = HostedScenario(ledger(tmp_path / "sound"))
    hosted.dump(hosted.lease().overlay)
    assert len(apsw.vfs_names()) == len(before) + 1
    hosted.close()
    assert apsw.vfs_names() == before


def test_repr_and_statistics(world: HostedScenario) -> None:
    """`repr` and `statistics` count what a world and a lease have done."""
    template = world.template
    size = f"8 tables, {len(template.pages)} pages, {len(world.tools)} tools"
    assert repr(world) == f"<HostedScenario 'ledger' [{size} | 0 leases, 0 calls]>"
    lease = world.lease()
    fresh = world.start_digest[:8]
    assert repr(lease) == f"<Lease of 'ledger' [0 changed pages, digest {fresh}]>"
    lease.call("book", {"account_id": 1, "amount": 1})
    lease.fork().call("nothing", {})
    assert world.statistics() == {"leases": 2, "calls": 2}
    assert repr(world).endswith("2 leases, 2 calls]>")
    pages = len(lease.overlay.pages)
    assert repr(lease) == f"<Lease of 'ledger' [{pages} changed pages, digest {lease.digest[:8]}]>"


def test_what_holds_frames_does_not_mix_worlds() -> None:
    """A profiler, a debugger or a monitor may hold the frames of a tool for long, and with them its
    cursors. No statement stays open through that: each world reads its own rows."""
    hosted = HostedScenario(read(LIBRARY))
    held: list[FrameType] = []

    def hold(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.endswith("database.py"):
            held.append(frame)

    fine = {"member_id": 2, "amount_cents": 350, "method": "card"}
    leases = [hosted.lease() for _ in range(4)]
    expected = hosted.lease().call("pay_fine", fine)
    sys.setprofile(hold)
    try:
        results = [lease.call("pay_fine", fine) for lease in leases]
    finally:
        sys.setprofile(None)
    assert held != []
    assert results == [expected] * 4
    assert [hosted.verify_digest(lease.overlay) for lease in leases] == [expected.digest] * 4
    hosted.close()


_NOTES = """
CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE VIRTUAL TABLE notes_fts USING fts5(body, content='notes', content_rowid='id');
CREATE TRIGGER notes_ai AFTER INSERT ON notes
BEGIN INSERT INTO notes_fts(rowid, body) VALUES (new.id, new.body); END;
"""
_NOTE_TOOLS = """
from typing import Any
from scenarios.api import Db


def add(db: Db, body: str) -> None:
    "Add a note."
    db.insert("notes", body=body)


def search(db: Db, word: str) -> list[Any]:
    "Notes with a word."
    return db.all(
        "SELECT body FROM notes_fts WHERE notes_fts MATCH ? ORDER BY rowid", f'"{word}"'
    )
"""


def test_a_full_text_index_is_that_of_its_own_world(tmp_path: Path) -> None:
    """One connection serves the calls of all worlds: the index keeps nothing of another one. The
    index of another table's text has no rows of its own in a diff."""
    files = {"schema_sql": _NOTES, "data_sql": "", "tools_py": _NOTE_TOOLS}
    world = HostedScenario(ledger(tmp_path, **files))
    draw = random.Random(7)
    words = ("roof", "door", "tree", "paint")
    worlds: list[tuple[Lease, list[str]]] = [(world.lease(), []) for _ in range(3)]
    for number in range(300):
        lease, bodies = draw.choice(worlds)
        if draw.random() < 0.5:
            body = " ".join(draw.choices(words, k=2))
            added = lease.call("add", {"body": body}, f"a{number}")
            assert [change.table for change in added.changes] == ["notes"]
            bodies.append(body)
        if draw.random() < 0.05:
            worlds.append((lease.fork(), list(bodies)))
        word = draw.choice(words)
        found = lease.call("search", {"word": word}, f"s{number}").text
        assert [one["body"] for one in msgspec.json.decode(found)] == [
            body for body in bodies if word in body.split()
        ]
    world.close()
