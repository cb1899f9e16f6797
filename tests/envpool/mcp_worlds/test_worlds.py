"""Worlds of MCP servers whose state is declared.

The server is ours (tests.support.mcp_servers.desk), with Python's own sqlite3, random and uuid; the
same promises are kept by servers of the registries in `just mcp-servers`.
"""

import contextlib
import json
import random
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.envpool import router
from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.types import Env, Recalls
from rehearsal_room.envpool.mcp.asks import ELICITATION, AsksBack
from rehearsal_room.envpool.mcp_worlds.env import ServerEnv
from rehearsal_room.envpool.mcp_worlds.pool import ServerWorldPool
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.workers.pool import WorkerSettings
from rehearsal_room.envpool.workers.sandbox import why_no_bubblewrap
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Call, Scenario, read
from rehearsal_room.scenarios.scaffold.verifier_text import HEAD, verifier_text
from tests.support.desk_worlds import DESK, VERIFY, desk, write_desk
from tests.support.mcp_servers.desk import SCHEMA
from tests.support.paths import MCP_SERVERS

FILES = "files {scratch}/notes"
Made = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def leased(scenario: Scenario) -> AsyncIterator[tuple[ServerWorldPool, Env]]:
    """A pool and a lease of it."""
    async with ServerWorldPool() as pool:
        await pool.host(scenario)
        async with pool.lease(scenario, None) as env:
            yield pool, env


async def play(env: Env, calls: Made) -> list[tuple[str, str | None, str]]:
    """Text, error and digest of each call."""
    facts = []
    for name, arguments in calls:
        result = await env.call(name, arguments, "")
        facts.append((result.text, result.error, result.digest))
    return facts


def random_calls(seed: int, count: int) -> Made:
    """Calls of the desk's tools, most of which it carries out."""
    rng = random.Random(seed)
    found: Made = []
    for _ in range(count):
        found.append(
            rng.choice(
                [
                    ("add_ticket", {"title": rng.choice(["Door", "Lamp", ""]), "owner": "bo"}),
                    ("close_ticket", {"ticket_id": rng.choice(["T-1", "T-2"])}),
                    ("take", {"sku": rng.choice(["pen", "ink"]), "qty": rng.randint(1, 5)}),
                    ("tag", {"ticket_id": "T-1", "word": rng.choice(["red", "blue"])}),
                    ("list_tickets", {}),
                ]
            )
        )
    return found


async def test_a_call_has_the_rows_that_the_server_wrote(tmp_path: Path) -> None:
    """Whatever the server does with its database, the call's result has the changed rows, and the
    state can be shown, compared and dumped. A refused call changes nothing."""
    async with leased(desk(tmp_path)) as (pool, env):
        assert env.digest == env.start_digest != ""
        result = await env.call("add_ticket", {"title": "Door", "owner": "ada"}, "c0")
        tables = [(change.table, change.before) for change in result.changes]
        assert tables == [("log", None), ("tickets", None)]
        ticket = result.changes[1].after
        assert ticket is not None and ticket["title"] == "Door"
        assert ticket["opened_at"].startswith("2026-03-02T09:00:01")  # one second after the clock
        assert await env.call("add_ticket", {"title": "Door", "owner": "ada"}, "c0") == result
        refused = await env.call("close_ticket", {"ticket_id": "T-9"}, "c1")
        assert (refused.error, refused.changes) == ("refused", ())
        assert refused.digest == result.digest == env.digest
        unknown = await env.call("open_ticket", {}, "c2")
        assert unknown.error == "unknown_tool"
        states = pool.hosted(desk_of(pool))
        before, after = states.states(env.state())
        assert len(before.all("SELECT * FROM tickets")) == 1
        assert len(after.all("SELECT * FROM tickets")) == 2
        assert after.changes == result.changes
        assert states.verify_digest(states.restored(env.state())) == env.digest


def desk_of(pool: ServerWorldPool) -> Scenario:
    """The pool's only scenario."""
    (world,) = pool._worlds.values()
    return world.states.scenario


@pytest.mark.slow
@pytest.mark.parametrize("how", ["", "wal", FILES])
async def test_straight_fork_reset_and_new_process_are_the_same(tmp_path: Path, how: str) -> None:
    """The same calls give the same texts, ids, times and digests in a lease, in another process, in
    a fork, and after a reset in the same process; tables made in mid-episode are included."""
    folder = 'folder = "{scratch}/notes"' if how == FILES else ""
    state = f'sqlite = "{{scratch}}/desk.db"\n{folder}'
    scenario = desk(tmp_path, how, state=state)
    async with leased(scenario) as (pool, env):
        for seed in range(6):
            calls = random_calls(seed, 8)
            straight = await play(env, calls)
            assert len({digest for _, _, digest in straight}) > 1
            env.reset()
            assert await play(env, calls) == straight
            env.reset()
            first = await play(env, calls[:4])
            fork = env.fork()
            assert await play(fork, calls[4:]) == straight[4:]
            assert first + await play(env, calls[4:]) == straight
            async with pool.lease(scenario, None) as other:
                assert await play(other, calls) == straight
            env.reset()


@pytest.mark.parametrize("how", ["", "reopens", "rolls"])
async def test_rows_do_not_depend_on_the_journal(
    tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `journal = "wal"` the database of an episode keeps its log, also while the server is not
    connected; texts and digests are those without it, and so they are after a reset, in a fork and
    in the next episode, which the same process serves. A server that sets another mode is named
    once."""
    (tmp_path / "seed").mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "seed" / "desk.db")) as db:
        db.executescript(SCHEMA)
        db.execute("INSERT INTO stock VALUES ('pen', 40), ('ink', 7)")
        db.execute("INSERT INTO tickets VALUES ('T-1', 'Lamp', 'ada', 'open', '2026-01-02', 1)")
        db.commit()
    calls, found = random_calls(3, 8), []
    for journal in ("", 'journal = "wal"'):
        folder = tmp_path / (journal[-4:-1] or "none")
        folder.mkdir()
        path = write_desk(folder, how, state=f'sqlite = "{{scratch}}/desk.db"\n{journal}')
        (path / "seed").symlink_to(tmp_path / "seed")
        with (path / "scenario.toml").open("a") as file:
            file.write('[start]\ncopy = "seed"\n')
        scenario = read(path)
        async with ServerWorldPool() as pool:
            await pool.host(scenario)
            async with pool.lease(scenario, None) as env:
                straight = await play(env, calls)
                found.append(straight)
                assert isinstance(env, ServerEnv) and env.server is not None
                has_log = bool(journal) and how != "rolls"
                assert env.server.state.without_log == ([] if has_log else ["desk.db"])
                env.reset()
                assert await play(env, calls[:4]) == straight[:4]
                assert await play(env.fork(), calls[4:]) == straight[4:]
            for _ in range(2):
                async with pool.lease(scenario, None) as env:
                    assert await play(env, calls) == straight
            assert pool.why_not_again(scenario) == ""
    assert found[0] == found[1]
    warned = capsys.readouterr().out.count("journal_mode_of_the_servers_own")
    assert warned == (how == "rolls")


@pytest.mark.slow
async def test_quick_episodes_share_a_process(tmp_path: Path) -> None:
    """A server that reads its database again is reset while it runs: forty episodes take one
    process, a second one for the proofs, and one for each call that is met in a later episode
    first. What was left of an episode, a new table included, is gone in the next."""
    async with ServerWorldPool() as pool:
        scenario = desk(tmp_path)
        states = await pool.host(scenario)
        for seed in range(40):
            async with pool.lease(scenario, None) as env:
                assert env.digest == states.start_digest
                await play(env, random_calls(seed, 3))
        (world,) = pool._worlds.values()
        assert world.renewal.why_not == ""
        assert pool.statistics()["starts"] < 10


@pytest.mark.parametrize(("how", "is_kept"), [("reopens", True), ("wal", False)])
async def test_a_database_that_came_later_is_removed(
    tmp_path: Path, how: str, is_kept: bool
) -> None:
    """Where a server made its database in an episode, the next one starts without it. A server that
    opens it for each call goes on; one that keeps it open would write into the removed file, which
    is noticed, and its episodes get a process each."""
    async with ServerWorldPool() as pool:
        scenario = desk(tmp_path, f"bare {how}")
        states = await pool.host(scenario)
        for _ in range(5):
            async with pool.lease(scenario, None) as env:
                assert env.digest == states.start_digest
                result = await env.call("take", {"sku": "pen", "qty": 2}, "")
                rows = [change.after for change in result.changes if change.table == "stock"]
                assert {"sku": "pen", "qty": 38} in rows
        (world,) = pool._worlds.values()
        assert (not world.renewal.why_not) == is_kept
        assert (pool.statistics()["starts"] == 2) == is_kept


@pytest.mark.parametrize(("how", "refused"), [("remembers", 0), ("remembers", 1), ("tries", 1)])
async def test_a_server_that_remembers_gets_a_process_for_each_episode(
    tmp_path: Path, how: str, refused: int
) -> None:
    """A server with a counter in memory answers differently once its database is put back; that is
    noticed the first time, and no later episode sees the counter of another. Calls that the server
    refuses prove nothing of those that it carries out, whether they are counted or not."""
    scenario = desk(tmp_path, how)
    async with ServerWorldPool() as pool:
        await pool.host(scenario)
        for _ in range(refused):
            async with pool.lease(scenario, None) as env:
                assert (await env.call("close_ticket", {"ticket_id": "T-9"}, "")).error
        for _ in range(3):
            async with pool.lease(scenario, None) as env:
                assert (await env.call("close_ticket", {"ticket_id": "T-1"}, "")).text == (
                    '{"closed": 1}'
                )
        assert pool.statistics()["starts"] >= 3
        (world,) = pool._worlds.values()
        assert world.renewal.why_not.startswith("close_ticket did something else")


async def test_a_fork_sees_no_other_episode(tmp_path: Path) -> None:
    """The process of a fork may have served another episode; where it remembers that, the fork goes
    on in a new one."""
    scenario = desk(tmp_path, "tries")
    async with ServerWorldPool() as pool:
        await pool.host(scenario)
        async with pool.lease(scenario, None) as one, pool.lease(scenario, None) as two:
            await one.call("close_ticket", {"ticket_id": "T-9"}, "")
            await two.call("list_tickets", {}, "")
        async with pool.lease(scenario, None) as env:
            assert (await env.call("close_ticket", {"ticket_id": "T-1"}, "")).text == (
                '{"closed": 1}'
            )
            fork = env.fork()
            assert (await fork.call("close_ticket", {"ticket_id": "T-1"}, "")).error == "refused"


@pytest.mark.parametrize("first", [("close", "list"), ("list", "close"), ("list",)])
async def test_a_cache_reaches_no_other_episode(tmp_path: Path, first: tuple[str, ...]) -> None:
    """A server that lists from a cache until it writes gives the right answers in the order of an
    episode, and wrong ones to the next episode: the proof in reverse order finds it, whatever
    was used first, alone or with what."""
    calls = {"close": ("close_ticket", {"ticket_id": "T-1"}), "list": ("list_tickets", {})}
    scenario = desk(tmp_path, "caches")
    async with ServerWorldPool() as pool:
        await pool.host(scenario)
        for names in (first, ("close",), ("close", "list"), ("list", "close"), ("list",)):
            async with pool.lease(scenario, None) as env:
                results = [await env.call(*calls[name], "") for name in names]
            listed = dict(zip(names, results, strict=True)).get("list")
            if listed is not None:
                state = "closed" if names == ("close", "list") else "open"
                assert f'"{state}"' in listed.text
        (world,) = pool._worlds.values()
        assert world.renewal.why_not.startswith("list_tickets did something else")


async def test_an_ignored_file_reaches_no_other_episode(tmp_path: Path) -> None:
    """An ignored file of one episode is not there in the next, even if only refused calls made it.
    (simple-backlog leaves such a lock file, and its tool `doctor` reports it.)"""
    state = 'sqlite = "{scratch}/desk.db"\nfolder = "{scratch}"\nignore_files = ["*.lock"]'
    calls: dict[str, Made] = {
        "list": [("list_tickets", {})],
        "both": [("close_ticket", {"ticket_id": "T-1"}), ("list_tickets", {})],
        "refused": [("close_ticket", {"ticket_id": "T-9"})],
    }
    async with ServerWorldPool() as pool:
        scenario = desk(tmp_path, "locks", state=state)
        await pool.host(scenario)
        for what in ("list", "refused", "list", "refused", "list", "both", "refused", "list"):
            async with pool.lease(scenario, None) as env:
                assert env.digest == env.start_digest
                texts = [text for text, _, _ in await play(env, calls[what])]
                if "list" in what:
                    assert json.loads(texts[0])[-1] is False, what
                if what == "both":
                    assert json.loads(texts[1])[-1] is True


async def test_a_restless_start_is_refused_by_its_tables(tmp_path: Path) -> None:
    """A server that starts in another state each time is refused with the tables, and accepted once
    they are ignored."""
    how = "restless"
    (tmp_path / "plain").mkdir()
    (tmp_path / "ignoring").mkdir()
    plain = desk(tmp_path / "plain", how, server="seeded = false")
    async with ServerWorldPool() as pool:
        await pool.host(plain)
        with pytest.raises(PoolError, match="in another state each time: rows of log differ"):
            async with pool.lease(plain, None), pool.lease(plain, None):
                pass
    ignoring = desk(
        tmp_path / "ignoring",
        how,
        server="seeded = false",
        state='sqlite = "{scratch}/desk.db"\nignore = ["log"]',
    )
    async with leased(ignoring) as (pool, env), pool.lease(ignoring, None) as second:
        assert env.start_digest == second.start_digest


async def test_a_server_that_dies_breaks_its_world_only(tmp_path: Path) -> None:
    """The episode's world breaks with the server's last words; the next lease has a new process."""
    scenario = desk(tmp_path)
    async with ServerWorldPool() as pool:
        await pool.host(scenario)
        async with pool.lease(scenario, None) as env:
            with pytest.raises(WorldError, match="the desk is on fire"):
                await env.call("crash", {}, "")
            with pytest.raises(WorldError, match="the desk is on fire"):
                env.state()
        async with pool.lease(scenario, None) as env:
            assert (await env.call("list_tickets", {}, "")).error is None


async def test_files_are_rows(tmp_path: Path) -> None:
    """A folder is the table `files`; the database in it is left out."""
    state = 'sqlite = "{scratch}/desk.db"\nfolder = "{scratch}"'
    async with leased(desk(tmp_path, FILES, state=state)) as (_, env):
        result = await env.call("add_ticket", {"title": "Door", "owner": "ada"}, "")
        files = [change.after for change in result.changes if change.table == "files"]
        assert [(row["kind"], row["text"]) for row in files if row is not None] == [
            ("folder", None),
            ("file", "# Door\n"),
        ]


async def test_a_database_that_comes_later(tmp_path: Path) -> None:
    """A server may make its database at its first call; its tables and rows are then changes."""
    async with leased(desk(tmp_path, "bare")) as (_, env):
        result = await env.call("take", {"sku": "pen", "qty": 2}, "")
        assert {change.table for change in result.changes} == {"stock", "tickets"}
        second = await env.call("take", {"sku": "pen", "qty": 1}, "")
        assert [change.after for change in second.changes] == [{"sku": "pen", "qty": 37}]


async def test_the_seed_is_copied_and_never_written(tmp_path: Path) -> None:
    """Every process starts with the package's seed, which stays as it is, and which the scenario's
    digest covers."""
    folder = write_desk(tmp_path)
    seed = folder / "seed"
    seed.mkdir()
    with sqlite3.connect(seed / "desk.db") as made:
        made.execute("CREATE TABLE tickets (id TEXT PRIMARY KEY, title, owner, state, at, touched)")
        made.execute("INSERT INTO tickets VALUES ('T-1', 'Old', 'bo', 'open', '', 1)")
        made.execute("CREATE TABLE stock (sku TEXT PRIMARY KEY, qty INTEGER)")
        made.execute("INSERT INTO stock VALUES ('pen', 1)")
        made.execute("CREATE TABLE log (line TEXT, at TEXT)")
    made.close()
    with (folder / "scenario.toml").open("a") as file:
        file.write('\n[start]\ncopy = "seed"\n')
    before, scenario = (seed / "desk.db").read_bytes(), read(folder)
    async with leased(scenario) as (_, env):
        result = await env.call("close_ticket", {"ticket_id": "T-1"}, "")
        assert result.changes[0].before == {
            "id": "T-1",
            "title": "Old",
            "owner": "bo",
            "state": "open",
            "at": "",
            "touched": 1,
        }
    assert (seed / "desk.db").read_bytes() == before
    (seed / "more.txt").write_text("x")
    assert read(folder).digest != scenario.digest


@pytest.mark.slow
async def test_what_is_written_after_the_answer_counts(tmp_path: Path) -> None:
    """A server that answers before it writes: the state at the end has what it wrote, and with
    `settle_ms` the call itself has it."""
    take = ("take", {"sku": "pen", "qty": 2}, "")
    (tmp_path / "settled").mkdir()
    async with leased(desk(tmp_path, "late")) as (_, env):
        assert (await env.call(*take)).changes == ()
        before = env.digest
        await anyio.sleep(0.5)
        assert env.state().digest != before
        env.reset()
        assert (await env.call("list_tickets", {}, "")).changes == ()
    state = 'sqlite = "{scratch}/desk.db"\nsettle_ms = 400'
    async with leased(desk(tmp_path / "settled", "late", state=state)) as (_, env):
        assert [change.after for change in (await env.call(*take)).changes] == [
            {"sku": "pen", "qty": 38}
        ]


async def test_a_late_write_reaches_no_other_episode(tmp_path: Path) -> None:
    """A write of an episode that is over, into a database that was put back meanwhile, costs its
    process: the next episode begins at the start."""
    scenario = desk(tmp_path, "late")
    async with ServerWorldPool() as pool:
        states = await pool.host(scenario)
        async with pool.lease(scenario, None) as env:
            await env.call("take", {"sku": "pen", "qty": 2}, "")
        await anyio.sleep(0.6)
        async with pool.lease(scenario, None) as env:
            assert (await env.call("list_tickets", {}, "")).digest == states.start_digest


async def test_own_ids_stand_for_the_logged_ones(tmp_path: Path) -> None:
    """A server that is not seeded makes other ids and times in each process. Where the calls were
    made before, its texts and rows have the logged ones, also where a later call names an id that
    the agent has seen; in a fork, too. Another amount stays a difference."""
    scenario = desk(tmp_path, server="seeded = false")
    opening = ("add_ticket", {"title": "Door", "owner": "ada"})
    async with leased(scenario) as (pool, env):
        first = await env.call(*opening, "")
        ticket = json.loads(first.text)["ticket_id"]
        closing = ("close_ticket", {"ticket_id": ticket})
        second = await env.call(*closing, "")
        fork = env.fork()
        assert (await fork.call("list_tickets", {}, "")).text.count(ticket) == 1
        assert fork.digest == env.digest
        async with pool.lease(scenario, None) as other:
            assert (await other.call(*opening, "")).text != first.text
        async with pool.lease(scenario, None) as other:
            assert isinstance(other, Recalls)
            for call, known in ((opening, first), (closing, second)):
                other.expect(known)
                assert await other.call(*call, "") == known
            other.expect(msgspec.structs.replace(second, text='{"taken": 3}'))
            taken = await other.call("take", {"sku": "pen", "qty": 2}, "")
            assert taken.text == '{"taken": 2}'
            assert (await other.call("list_tickets", {}, "")).text.count(ticket) == 1


async def test_a_written_verifier_takes_another_number_of_calls(tmp_path: Path) -> None:
    """What `new world --mcp` writes for a call also accepts an agent that looks first, so that the
    server's ids are others; it rejects one that does less, more, or something else."""
    folder = write_desk(tmp_path)
    add = Call("add_ticket", {"title": "Door sticks", "owner": "ada"})
    async with leased(read(folder)) as (_, env):
        made = await env.call(add.name, add.arguments, "")
    text = verifier_text("open", made.changes, [add])
    close = VERIFY.partition("\n\n\n")[2].partition("\n\n\n")[2]
    (folder / "verify.py").write_text(f"{HEAD}\n\n{text}\n\n{close}")
    scenario = read(folder)
    look: Made = [("list_tickets", {})]
    right: Made = [(add.name, add.arguments)]
    wrong: Made = [(add.name, {"title": "Door opens", "owner": "ada"})]
    for calls, passes in (
        (right, True),
        ([*look, *look, *right], True),
        (look, False),
        (right * 2, False),
        (wrong, False),
    ):
        async with leased(scenario) as (pool, env):
            await play(env, calls)
            verified = await pool.verify(scenario, scenario.task("open"), env.state(), "Done.")
        assert not verified.fault
        assert all(one.passed for one in verified.findings) is passes


@pytest.mark.slow
async def test_two_servers_share_a_world(tmp_path: Path) -> None:
    """Servers of one world share its folder; tools of one name have their server in front, tables
    of several databases their file; what a server asks is answered, and is in the result. A fork
    gets the same answers."""
    path = write_desk(tmp_path) / "scenario.toml"
    head = path.read_text().partition("[server]")[0]
    path.write_text(
        f"""{head}
[[server]]
name = "front"
command = "{DESK} {{scratch}}/front.db"
[[server]]
name = "back"
command = "{DESK} {{scratch}}/back.db"
[[server]]
name = "asking"
command = "{sys.executable} {MCP_SERVERS / "asking.py"}"
ask = "user"
[state]
sqlite = ["{{scratch}}/front.db", "{{scratch}}/back.db"]
"""
    )
    async with leased(read(path.parent)) as (_, env):
        assert {"front__take", "back__take", "deliver"} <= {tool.name for tool in env.tools}
        result = await env.call("back__take", {"sku": "pen", "qty": 1}, "")
        assert [change.table for change in result.changes] == ["back_stock"]
        assert isinstance(env, AsksBack)
        asked: list[str] = []

        async def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
            asked.append(method)
            filled = {"order_id": "1", "day": "Friday", "parcels": 2}
            return {"action": "accept", "content": filled}

        env.answer_with(answer)
        delivered = await env.call("deliver", {}, "")
        assert '"parcels":2' in delivered.text and asked == [ELICITATION]
        assert [one.method for one in delivered.asked] == [ELICITATION]
        fork = env.fork()
        await fork.call("front__take", {"sku": "ink", "qty": 1}, "")
        assert asked == [ELICITATION] and fork.digest != env.digest


async def test_an_isolated_server_is_held(tmp_path: Path) -> None:
    """Where a run isolates its worlds, the server writes to its own folders only and has no
    network, the verifier runs in a worker, and all else is the same."""
    if why := why_no_bubblewrap():
        pytest.skip(why)
    scenario, outside = desk(tmp_path), tmp_path / "outside"
    write = {"path": str(outside)}
    async with RoutingPool(WorkerSettings(workers=1), isolate=True) as pool:
        await pool.host(scenario)
        async with pool.lease(scenario, None) as env:
            refused = await env.call("export", write, "")
            assert refused.error == "refused" and "Read-only" in refused.text
            own = await env.call("export", {"path": "./tickets.txt"}, "")
            assert own.text == '{"socket": false}'
            opened = await play(env, [("add_ticket", {"title": "Door sticks", "owner": "ada"})])
            verified = await pool.verify(
                scenario, scenario.task("open"), env.state(), "It is done."
            )
        assert verified.pid and [one.passed for one in verified.findings] == [True, True]
        assert not outside.exists()
    async with leased(scenario) as (_, env):
        await env.call("export", write, "")
        assert outside.exists()  # without isolation it could
        await env.call("list_tickets", {}, "")
        assert opened == await play(env, [("add_ticket", {"title": "Door sticks", "owner": "ada"})])


async def test_without_bubblewrap_an_isolated_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is named, and nothing is started."""
    monkeypatch.setattr(router, "why_no_bubblewrap", lambda: "bwrap is not installed")
    async with RoutingPool(WorkerSettings(workers=1), isolate=True) as pool:
        with pytest.raises(PoolError, match="would isolate, and bwrap is not installed"):
            await pool.host(desk(tmp_path))
        assert pool.statistics()["starts"] == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('desk.db"\n', 'desk.db"\nfoldr = 1\n', "foldr"),
        ('sqlite = "{scratch}/desk.db"', 'sqlite = "/etc/desk.db"', "is not below {scratch}"),
        ('sqlite = "{scratch}/desk.db"', 'sqlite = "{scratch}/../x"', "is not below {scratch}"),
        ('sqlite = "{scratch}/desk.db"', "", "names neither sqlite nor folder"),
        (
            'sqlite = "{scratch}/desk.db"',
            'folder = "{scratch}"\njournal = "wal"',
            "no state.sqlite",
        ),
        ('"{scratch}/desk.db"', '["{scratch}/a.db", "{scratch}/x/a.db"]', "have one name"),
    ],
)
def test_a_fault_of_the_package_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    """A wrong [state] is refused with the file and the field, before anything starts."""
    path = write_desk(tmp_path) / "scenario.toml"
    text = path.read_text()
    assert text.count(old) >= 1
    head, _, tail = text.rpartition(old)
    path.write_text(head + new + tail)
    with pytest.raises(PackageError, match=r"scenario\.toml") as caught:
        read(path.parent)
    assert said in str(caught.value)


async def test_a_command_that_cannot_start_is_one_sentence(tmp_path: Path) -> None:
    """A missing program, and a server that ends at once, are refused with their reason."""
    path = write_desk(tmp_path) / "scenario.toml"
    text = path.read_text()
    for command, said in (
        ("no-such-desk", "there is no program 'no-such-desk'"),
        ("python -c 'import sys; sys.exit(3)'", "ended with status 3"),
    ):
        lines = [
            f'command = "{command}"' if line.startswith("command") else line
            for line in text.splitlines()
        ]
        path.write_text("\n".join(lines))
        async with ServerWorldPool() as pool:
            with pytest.raises(PoolError, match=said):
                await pool.host(read(path.parent))
