"""Worlds on a PostgreSQL server (Debian's), which is started here.

The MCP server is ours: one tool that makes a statement, through psycopg. Servers of the registries
are played by `just mcp-postgres`. Without PostgreSQL or psycopg, these tests are skipped.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from rehearsal_room.envpool.core.errors import PoolError  # noqa: E402
from rehearsal_room.envpool.core.types import Env  # noqa: E402
from rehearsal_room.envpool.mcp_worlds.pool import ServerWorldPool  # noqa: E402
from rehearsal_room.scenarios.errors import PackageError  # noqa: E402
from rehearsal_room.scenarios.format import Scenario, read  # noqa: E402
from tests.mcp_postgres.cluster import cluster, programs  # noqa: E402
from tests.mcp_postgres.worlds import SEED, write_world  # noqa: E402

pytestmark = pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed")
SERVER = Path(__file__).parent / "statements.py"
COMMAND = f"{sys.executable} {SERVER} {{postgres}}"
ADD = "INSERT INTO tickets (customer, title) VALUES ('C-1', 'Fan') RETURNING *"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with cluster() as started:
        yield started


def world(parent: Path, address: str, **given: Any) -> Scenario:
    """A repair desk."""
    solution = ("run", "{ sql = 'SELECT 1' }")
    return read(write_world(parent / "repairs", COMMAND, address, solution, **given))


def new(parent: Path, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    """`rehearse new world` of our server."""
    command = [sys.executable, "-m", "rehearsal_room", "new", "world", "parts", "-o", parent]
    return subprocess.run([*command, *words], capture_output=True, text=True)


@pytest.mark.slow  # it plays the gate, in processes
@pytest.mark.timeout(300)
def test_a_new_world_of_a_server_on_postgresql(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`new world --postgres` makes a package with a first task, which the gate accepts; the address
    keeps its variables, and no database is left. A password, a database of the user's, and a
    server that gets none, are one sentence."""
    dump = tmp_path / "shop.sql"
    dump.write_text(SEED)
    named = address.replace("pass%2Fword", "{REPAIRS_PASSWORD}")
    words: tuple[str | Path, ...] = ("--mcp", COMMAND, "--postgres", named, "--dump", dump)
    monkeypatch.setenv("REPAIRS_PASSWORD", "pass/word")
    made = new(tmp_path, *words)
    assert made.returncode == 0, made.stderr
    assert "2 tools; its state is in PostgreSQL" in made.stdout
    scenario = read(tmp_path / "parts")
    (call,) = scenario.tasks[0].oracle
    assert call.name == "store"
    text = (tmp_path / "parts" / "scenario.toml").read_text()
    assert f'postgres = "{named}"' in text and "pass" not in text.replace("PASSWORD", "")
    check = [sys.executable, "-m", "rehearsal_room", "worlds", "check", tmp_path / "parts"]
    checked = subprocess.run(check, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert databases(address) == []
    for words, said in (
        (("--mcp", COMMAND, "--postgres", address), "has a password, which the package would show"),
        (("--mcp", f"srv {address}"), "--postgres postgresql://postgres:{DB_PASSWORD}@127.0.0.1"),
        (("--mcp", "srv", "--var", f"DB={address}"), "is given a PostgreSQL database"),
        (("--mcp", "srv", "--postgres", named), "no server has {postgres}"),
        (("--mcp", "srv", "--dump", dump), "--dump is for --postgres"),
        (("--postgres", named), "--postgres is for a world of --mcp"),
    ):
        found = new(tmp_path / "other", *words)
        assert found.returncode == 2 and said in found.stderr, found
        assert "pass%2F" not in found.stderr and len(found.stderr.strip().splitlines()) == 1
        assert not (tmp_path / "other" / "parts").exists()


def databases(address: str) -> list[str]:
    """Our databases on the server."""
    with psycopg.connect(address) as admin:
        found = admin.execute("SELECT datname FROM pg_database WHERE datname LIKE 'rehearse%'")
        return sorted(name for (name,) in found)


async def run(env: Env, *statements: str) -> list[tuple[str, str]]:
    """Text and digest of each statement."""
    results = [await env.call("run", {"sql": sql}, "") for sql in statements]
    assert all(result.error is None for result in results), results
    return [(result.text, result.digest) for result in results]


async def test_a_call_has_its_rows_and_the_world_its_own_time(tmp_path: Path, address: str) -> None:
    """Values are as PostgreSQL writes them; what the database draws follows from the call, so that
    a reset, another process and a fork give the same ids and times; the databases are gone at the
    end."""
    statements = (ADD, "SELECT now(), clock_timestamp(), random(), gen_random_uuid()", ADD)
    async with ServerWorldPool() as pool:
        scenario = world(tmp_path, address)
        await pool.host(scenario)
        async with pool.lease(scenario) as env:
            result = await env.call("run", {"sql": ADD}, "")
            row = {change.table: change.after for change in result.changes}["tickets"]
            assert row is not None
            times = (row["opened_at"], row["touched"])
            assert times == ("2026-03-02 09:00:01+00", "2026-03-02 09:00:01")
            plain = {"length": 3, "price": "0.00", "facts": "{}", "tags": "{}", "photo": None}
            assert row.items() >= {**plain, "urgency": "low", "state": "open"}.items()
            env.reset()
            straight = await run(env, *statements)
            env.reset()
            assert await run(env, *statements) == straight
            env.reset()
            first = await run(env, *statements[:2])
            fork = env.fork()
            assert first + await run(fork, *statements[2:]) == straight
            async with pool.lease(scenario) as other:
                assert await run(other, *statements) == straight
            assert len(databases(address)) >= 4
        (hosted,) = pool._worlds.values()
        assert hosted.renewal.why_not == ""
    assert databases(address) == []


@pytest.fixture
def dumps(address: str) -> list[bytes]:
    """The same database as SQL and in the custom format of pg_dump."""
    place, _, _ = address.rpartition("/")
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute("CREATE DATABASE dumped")
    url = f"{place}/dumped"
    subprocess.run(["psql", "-q", url], input=SEED, text=True, check=True)
    made = [["pg_dump", *options, url] for options in ([], ["-Fc"])]
    return [subprocess.run(words, capture_output=True, check=True).stdout for words in made]


async def test_a_dump_in_the_custom_format(
    tmp_path: Path, address: str, dumps: list[bytes]
) -> None:
    """What pg_dump writes in its custom format is the same start as its SQL."""
    digests = []
    for number, dump in enumerate(dumps):
        (tmp_path / str(number)).mkdir()
        scenario = world(tmp_path / str(number), address, seed=dump)
        async with ServerWorldPool() as pool:
            digests.append((await pool.host(scenario)).start_digest)
    assert digests[0] == digests[1]


@pytest.mark.slow  # three processes that each import everything
@pytest.mark.timeout(300)
def test_databases_of_a_killed_process_are_dropped(tmp_path: Path, address: str) -> None:
    """Those of a process that was killed are dropped at the next start, those of a living one are
    left."""
    world(tmp_path, address)
    holding = [sys.executable, "-m", "tests.mcp_postgres.holding", str(tmp_path / "repairs")]
    with subprocess.Popen(holding, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as killed:
        assert killed.stdout is not None and killed.stdout.readline()
        first = databases(address)
        assert len(first) == 2
        with subprocess.Popen(holding, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as living:
            assert living.stdout is not None and living.stdout.readline()
            assert set(first) < set(databases(address))
            os.kill(killed.pid, signal.SIGKILL)
            killed.wait()
            with subprocess.Popen(holding, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as third:
                assert third.stdout is not None and third.stdout.readline()
                assert set(first).isdisjoint(databases(address))
                assert len(databases(address)) == 4
    assert databases(address) == []


async def test_a_role_without_rights(tmp_path: Path, address: str) -> None:
    """A role that may only make databases plays as well: each episode has a new process, and the
    database's clock is real."""
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute("CREATE ROLE plain LOGIN CREATEDB PASSWORD 'pass/word'")
    scenario = world(tmp_path, address.replace("//postgres:", "//plain:"))
    async with ServerWorldPool() as pool:
        await pool.host(scenario)
        for _ in range(2):
            async with pool.lease(scenario) as env:
                result = await env.call("run", {"sql": "DELETE FROM stock.parts"}, "")
                assert [change.table for change in result.changes] == ["stock_parts"] * 3
        assert pool.statistics()["starts"] >= 2


async def test_what_cannot_be_had_is_one_sentence(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing variable, a server that refuses, a broken dump, isolation; no sentence has the
    password."""
    monkeypatch.setenv("OUR_PORT", "1")
    cases: list[tuple[str, dict[str, str], bool, str]] = [
        (
            "postgresql://x:pass%2Fword@127.0.0.1:{NO_PORT}",
            {},
            False,
            r"\$NO_PORT, which is not set",
        ),
        ("postgresql://x:pass%2Fword@127.0.0.1:{OUR_PORT}/", {}, False, "server cannot be used"),
        (address.replace("//postgres:", "//nobody:"), {}, False, "authentication failed"),
        (address, {"seed": "CREATE TABLE x (y int);\nnonsense;\n"}, False, "seed.sql cannot be re"),
        (address, {}, True, "cannot be isolated"),
    ]
    for number, (place, given, isolate, said) in enumerate(cases):
        (tmp_path / str(number)).mkdir()
        scenario = world(tmp_path / str(number), place, **given)
        async with ServerWorldPool(isolate=isolate) as pool:
            with pytest.raises(PoolError, match=said) as caught:
                await pool.host(scenario)
        assert "pass/word" not in str(caught.value) and "pass%2F" not in str(caught.value)
        assert "\n" not in str(caught.value)
    assert databases(address) == []


def test_a_fault_of_the_package_is_named(tmp_path: Path) -> None:
    """An address that is none, a server that gets no database, and a dump that is not there."""
    folder = write_world(tmp_path / "repairs", COMMAND, "postgresql://", ("run", "{ sql = '' }"))
    text = (folder / "scenario.toml").read_text()
    for old, new, said in (
        ("postgresql://", "mysql://", "does not begin with postgresql://"),
        (" {postgres}", "", "no server has {postgres}"),
        ("seed.sql", "sead.sql", "there is no file"),
        ("seed.sql", "../seed.sql", "is not a file in the package"),
    ):
        (folder / "scenario.toml").write_text(text.replace(old, new))
        with pytest.raises(PackageError, match=r"scenario\.toml") as caught:
            read(folder)
        assert said in str(caught.value)
