"""Suites on MCP servers: MCPMark with a real Postgres server and the official file system server,
MCP-Universe with its package's own evaluators.

    python -m tests.suites.served_campaign PYTHON [FILESYSTEM_SERVER]

PYTHON has psycopg2 and mcpuniverse; FILESYSTEM_SERVER is the program of
@modelcontextprotocol/server-filesystem. A Postgres server is started in a temporary folder (as
another user where this is root), if there is one. A scripted policy solves every other episode and
spoils the rest, so the scores are known.
"""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.paths import SUITES

CHECKOUT, UNIVERSE = SUITES / "mcpmark_checkout", SUITES / "mcp_universe_checkout"
PORT = "54329"
EPISODES = 4  # of each task
_DUMP = """
CREATE TABLE loans (id int PRIMARY KEY, closed boolean NOT NULL);
INSERT INTO loans VALUES (1, false), (2, false);
"""
_CLOSE = [{"name": "execute_sql", "arguments": {"sql": "UPDATE loans SET closed=true WHERE id=2"}}]
_CLOSE_ALL = [{"name": "execute_sql", "arguments": {"sql": "UPDATE loans SET closed = true"}}]
_OPEN = "UPDATE rooms SET open = true"
_READING = [{"name": "execute_sql", "arguments": {"sql": f"{_OPEN} WHERE name = 'reading room'"}}]
_ALL_ROOMS = [{"name": "execute_sql", "arguments": {"sql": _OPEN}}]


def main(python: str, file_server: str = "") -> int:
    """Run the campaign; returns the exit status."""
    with tempfile.TemporaryDirectory(prefix="rehearse-served-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        checkout = folder / "checkout"
        shutil.copytree(CHECKOUT, checkout)
        wrong = [*_universe(python, folder)]
        if file_server:
            wrong += _files(file_server, checkout, folder)
        if reason := _no_postgres():
            sys.stdout.write(f"no Postgres server: {reason}\n")
        else:
            wrong += _databases(python, checkout, folder)
    for line in wrong:
        sys.stdout.write(f"WRONG: {line}\n")
    return bool(wrong)


def _universe(python: str, folder: Path) -> Iterator[str]:
    """The package's evaluators on our tasks and servers."""
    checkout = folder / "universe"
    shutil.copytree(UNIVERSE, checkout)
    find = "import importlib.util as u; print(u.find_spec('mcpuniverse').origin)"
    found = subprocess.run([python, "-c", find], check=True, capture_output=True, text=True)
    package, ours = Path(found.stdout.strip()).parent, checkout / "mcpuniverse"
    for name in ("common", "evaluator"):
        shutil.rmtree(ours / name)
        shutil.copytree(package / name, ours / name)
    scripts = {
        "web_search_books_task_0001": (
            '{"copies": 4, "title": "The Glass River"}',
            '{"copies": 4, "title": "Salt Roads"}',
        ),
        "web_search_books_task_0002": ('```json\n{"copies": 3}\n```', "There are 3."),
    }
    report = _played(
        ("mcp_universe", "web_search"),
        checkout,
        folder,
        {},
        {task: tuple(([], answer) for answer in both) for task, both in scripts.items()},
        ["--suite-python", python, "--prompts", "ours"],
        {},
    )
    yield from _faults("web_search", report, len(scripts))


def _databases(python: str, checkout: Path, folder: Path) -> Iterator[str]:
    with _postgres(folder) as environment:
        _dump(checkout, environment)
        servers = {"postgres": _stdio(sys.executable, checkout / "servers" / "database.py")}
        servers["postgres"]["env"] = {"DATABASE_URI": "{{DATABASE_URL}}"}
        scripts = {
            "postgres_loans_close_loan": ((_CLOSE, "Done."), (_CLOSE_ALL, "Done.")),
            "postgres_rooms_open_room": ((_READING, "Done."), (_ALL_ROOMS, "Done.")),
        }
        more = ["--suite-python", python]
        for name in ("POSTGRES_HOST", "POSTGRES_PORT", "POSTGRES_USERNAME", "POSTGRES_PASSWORD"):
            more += ["--mcp-env", name]
        report = _played(
            ("mcpmark", "postgres"), checkout, folder, servers, scripts, more, environment
        )
        yield from _faults("postgres", report, len(scripts))
        left = _psql(environment, "SELECT datname FROM pg_database WHERE datname LIKE 'rehearse%'")
        if left:
            yield f"databases that are left: {left}"


def _files(file_server: str, checkout: Path, folder: Path) -> Iterator[str]:
    servers = {"filesystem": _stdio(file_server, "{{FILESYSTEM_TEST_DIR}}")}
    source, target = "glass_river.txt", "history/glass_river.txt"
    scripts = {
        "filesystem_shelves_move_book": (
            ([_file_call("move_file", source=source, destination=target)], "Done."),
            ([_file_call("move_file", source=source, destination="history/lost.txt")], "Done."),
        ),
        "filesystem_shelves_list_books": (
            (
                [
                    _file_call(
                        "write_file", path="books.txt", content="glass_river.txt\nsalt_roads.txt"
                    )
                ],
                "Done.",
            ),
            ([_file_call("write_file", path="books.txt", content="salt_roads.txt")], "Done."),
        ),
    }
    report = _played(("mcpmark", "filesystem"), checkout, folder, servers, scripts, [], {})
    yield from _faults("filesystem", report, len(scripts))


def _file_call(name: str, **paths: str) -> dict[str, Any]:
    return {"name": name, "arguments": paths}


def _stdio(command: str, *arguments: object) -> dict[str, Any]:
    return {"stdio": {"command": command, "args": [str(one) for one in arguments]}}


def _played(
    played: tuple[str, str],
    checkout: Path,
    folder: Path,
    servers: dict[str, Any],
    scripts: Mapping[str, tuple[tuple[list[dict[str, Any]], str], ...]],
    more: list[str],
    environment: dict[str, str],
) -> dict[str, Any]:
    suite, category = played
    listed, script, out = (folder / f"{category}-{name}" for name in ("servers", "script", "json"))
    listed.write_text(json.dumps(servers))
    lines = [
        {"scenario": task, "task": task, "calls": calls, "answer": answer}
        for task, both in scripts.items()
        for calls, answer in both * (EPISODES // 2)
    ]
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    began = time.monotonic()
    subprocess.run(
        [
            *(sys.executable, "-m", "rehearsal_room", "eval", suite, "--suite-path", str(checkout)),
            *("--category", category, "--suite-servers", str(listed), "-k", str(EPISODES), *more),
            *("-p", "scripted", "--script", str(script), "-o", str(folder / f"run-{category}")),
            *("--json", str(out)),
        ],
        check=True,
        env=os.environ | environment,
    )
    sys.stdout.write(f"{category}: {time.monotonic() - began:.1f} s with the floor\n")
    report: dict[str, Any] = json.loads(out.read_text())
    return report


def _faults(category: str, report: dict[str, Any], num_tasks: int) -> Iterator[str]:
    found = (report["scores"], report["floor"], report["episodes"], report["unjudged"])
    if found != ({category: 0.5}, 0.0, EPISODES * num_tasks, 0):
        yield f"{category}: scores, floor, episodes and unjudged are {found}"


@contextmanager
def _postgres(folder: Path) -> Iterator[dict[str, str]]:
    """A server with a password; yields the variables that name it."""
    data, secret = folder / "data", folder / "secret"
    secret.write_text("reading-room")
    run = _as_other_user(folder)
    programs = _server_programs()
    assert programs is not None
    pg_ctl = str(programs / "pg_ctl")
    run(
        [
            str(programs / "initdb"),
            "-D",
            str(data),
            "-U",
            "postgres",
            "-A",
            "md5",
            f"--pwfile={secret}",
            "-N",
        ]
    )
    options = f"-p {PORT} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    run([pg_ctl, "-D", str(data), "-o", options, "-l", str(folder / "log"), "-w", "start"])
    try:
        yield {
            "POSTGRES_HOST": "127.0.0.1",
            "POSTGRES_PORT": PORT,
            "POSTGRES_USERNAME": "postgres",
            "POSTGRES_PASSWORD": "reading-room",
        }
    finally:
        run([pg_ctl, "-D", str(data), "-m", "immediate", "stop"])


def _server_programs() -> Path | None:
    """The folder of initdb and pg_ctl; None: there is no Postgres server here."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return programs[-1] if programs else None


def _no_postgres() -> str:
    """Why no server can be started here; empty: it can."""
    if _server_programs() is None:
        return "it is not installed (Debian: apt-get install postgresql)"
    if os.geteuid() == 0:
        tried = subprocess.run(["sh", "-c", "true > /dev/null"], user="postgres")
        if tried.returncode:
            return "user postgres may not write to /dev/null, which initdb needs"
    return ""


def _as_other_user(folder: Path) -> Any:
    """What runs a command as a user that Postgres accepts: it refuses root."""
    if os.geteuid() != 0:
        return lambda command: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    other = pwd.getpwnam("postgres")
    os.chown(folder, other.pw_uid, other.pw_gid)

    def run(command: list[str]) -> None:
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, user=other.pw_uid, group=other.pw_gid
        )

    return run


def _dump(checkout: Path, environment: dict[str, str]) -> None:
    """Make the dump from which the worlds of one task are restored."""
    origin = "made_for_the_dump"
    _psql(environment, f"CREATE DATABASE {origin}")
    _psql(environment, _DUMP, origin)
    (checkout / "postgres_state").mkdir()
    path = checkout / "postgres_state" / "loans.backup"
    subprocess.run(
        ["pg_dump", "-Fc", "-f", str(path), origin], check=True, env=_client(environment)
    )
    _psql(environment, f"DROP DATABASE {origin}")


def _psql(environment: dict[str, str], sql: str, database: str = "postgres") -> str:
    done = subprocess.run(
        ["psql", "-v", "ON_ERROR_STOP=1", "-tAc", sql, database],
        check=True,
        env=_client(environment),
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def _client(environment: dict[str, str]) -> dict[str, str]:
    names = {"PGHOST": "HOST", "PGPORT": "PORT", "PGUSER": "USERNAME", "PGPASSWORD": "PASSWORD"}
    found = {theirs: environment[f"POSTGRES_{ours}"] for theirs, ours in names.items()}
    return os.environ | found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
