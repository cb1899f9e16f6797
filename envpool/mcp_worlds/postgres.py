"""The databases of one world on a PostgreSQL server: a template, and a copy of it for each process.

    rehearse_a1b2c3_t        made of the package's dump, once
    rehearse_a1b2c3_1, _2    copies of it

All have their owner's number in the name: an owner is one `PostgresDatabases`, and holds an
advisory lock of this number as long as it lives. A lock ends with its connection, also after
`kill -9`; so who starts next drops the databases of owners whose lock is gone.

`state.postgres` may name variables of the environment in braces, and libpq reads its own (PGHOST,
PGPASSWORD ...). No message has the address: it may have a password.
"""

import os
import re
import secrets
import shutil
import subprocess
import threading
from contextlib import closing, suppress
from typing import Any
from urllib.parse import quote, urlencode

import psycopg

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.mcp_state.postgres_catalog import SETTINGS, quoted
from rehearsal_room.envpool.mcp_state.postgres_reader import (
    PgSnapshot,
    PostgresReader,
    first_line,
)
from rehearsal_room.envpool.seeded.postgres import begin_call, replace_words, seed_database
from rehearsal_room.scenarios.format import Scenario

_LOCKS = 0x52454841  # the class of our advisory locks
_PREFIX = "rehearse_"
_VARIABLE = re.compile(r"\{(\w+)\}")
_WAIT_S = 10
_CUSTOM = b"PGDMP"  # how a dump of pg_dump's custom format begins
_OURS = r"SELECT datname FROM pg_database WHERE datname ~ '^rehearse_[0-9a-f]+_(t|\d+)$'"
_OWNERS = (
    "SELECT objid::int8 FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND granted"
)


class PostgresDatabase:
    """A copy of the template. It implements envpool.mcp_worlds.databases.ProcessDatabase."""

    def __init__(self, owner: "PostgresDatabases", name: str) -> None:
        self._owner = owner
        self.name = name
        self.url = owner.url_of(name)
        self._connection = owner.connected(name)

    def reader(self, since: PgSnapshot | None) -> PostgresReader:
        """What reads it."""
        return PostgresReader(self._connection, since=since)

    def begin_call(self, number: int) -> None:
        """Begin call `number`, from 1, for its clock and random numbers. Raises PoolError."""
        if self._owner.is_seeded:
            try:
                begin_call(self._connection, number)
            except psycopg.Error as exc:
                raise PoolError(
                    f"the server's database {self.name} is gone: {first_line(exc)}"
                ) from exc

    def drop(self) -> None:
        """Drop it, and end the sessions in it."""
        self._connection.close()
        self._owner.drop(self.name)


class PostgresDatabases:
    """The databases of one world. It implements envpool.mcp_worlds.databases.WorldDatabases. Raises
    PoolError where they cannot be made.

    `is_seeded`: whether its clock and random numbers follow from the number of the call.
    """

    def __init__(self, scenario: Scenario) -> None:
        assert scenario.server is not None
        self._path = scenario.path
        self._record = scenario.server
        self._lock = threading.Lock()  # copies are made in threads
        self._number = 0
        self._address = self._filled(self._record.state.postgres)
        self._admin = self.connected("")
        self._owner = self._owned()
        self.is_seeded = any(server.seeded for server in self._record.servers)
        try:
            self._sweep()
            self._make_template(scenario)
        except BaseException:
            self.close()
            raise

    def copy(self) -> PostgresDatabase:
        """A copy of the template. Raises PoolError."""
        with self._lock:
            self._number += 1
            name = f"{_PREFIX}{self._owner:x}_{self._number}"
            self._create(name, self._template)
        return PostgresDatabase(self, name)

    def drop(self, name: str) -> None:
        """Drop a database, and end the sessions in it."""
        with self._lock:
            self._drop(name)

    def close(self) -> None:
        """Drop what is left of its databases."""
        with self._lock:
            if not self._admin.closed:
                for (name,) in self._admin.execute(_OURS).fetchall():
                    if _owner_of(name) == self._owner:
                        self._drop(name)
                self._admin.close()

    def connected(self, database: str) -> psycopg.Connection[tuple[Any, ...]]:
        """A session in a database; empty: the one of the address. Raises PoolError."""
        name = {"dbname": database} if database else {}
        try:
            connection = psycopg.connect(
                self._address,
                autocommit=True,
                connect_timeout=_WAIT_S,
                application_name="rehearse",
                **name,
            )
            for setting, value in SETTINGS.items():
                connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", (setting, value))
        except psycopg.Error as exc:
            raise self._error(f"its PostgreSQL server cannot be used: {first_line(exc)}") from exc
        return connection

    def url_of(self, database: str) -> str:
        """The address of a database, complete."""
        info = self._admin.info
        user = quote(info.user, safe="")
        if info.password:
            user = f"{user}:{quote(info.password, safe='')}"
        if info.host.startswith("/"):
            place = urlencode({"host": info.host, "port": info.port})
            return f"postgresql://{user}@/{database}?{place}"
        host = f"[{info.host}]" if ":" in info.host else info.host
        return f"postgresql://{user}@{host}:{info.port}/{database}"

    @property
    def _template(self) -> str:
        return f"{_PREFIX}{self._owner:x}_t"

    def _make_template(self, scenario: Scenario) -> None:
        self._create(self._template, "template0")
        dump = self._record.start.postgres
        with closing(self.connected(self._template)) as connection:
            try:
                if self.is_seeded:
                    try:
                        seed_database(connection, seed=scenario.name, clock=scenario.clock)
                    except psycopg.errors.InsufficientPrivilege:
                        self.is_seeded = False  # its clock and its ids are real
                if dump:
                    self._restore(dump)
                if self.is_seeded:
                    replace_words(connection)
                    begin_call(connection, 0)
            except psycopg.Error as exc:
                raise self._error(f"its database cannot be made: {first_line(exc)}") from exc

    def _restore(self, dump: str) -> None:
        path = self._path / dump
        with path.open("rb") as file:
            is_custom = file.read(len(_CUSTOM)) == _CUSTOM
        program = "pg_restore" if is_custom else "psql"
        if shutil.which(program) is None:
            raise self._error(f"{program}, which restores {dump}, is not installed")
        options = ["--exit-on-error", "--no-owner", "--no-privileges"]
        if not is_custom:
            options = ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction"]
            options.append("--file")
        info = self._admin.info
        place = [f"--host={info.host}", f"--port={info.port}", f"--username={info.user}"]
        done = subprocess.run(
            [program, "--no-password", *place, f"--dbname={self._template}", *options, str(path)],
            env={**os.environ, "PGPASSWORD": info.password or ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode:
            said = (done.stderr.strip() or f"status {done.returncode}").splitlines()[0]
            raise self._error(f"start.postgres: {dump} cannot be restored: {said}")

    def _create(self, name: str, template: str) -> None:
        sql = f"CREATE DATABASE {quoted(name)} TEMPLATE {quoted(template)}"
        try:
            self._admin.execute(sql)
        except psycopg.Error as exc:
            raise self._error(f"its database cannot be made: {first_line(exc)}") from exc

    def _drop(self, name: str) -> None:
        with suppress(psycopg.Error):  # the next start drops it
            self._admin.execute(f"DROP DATABASE IF EXISTS {quoted(name)} WITH (FORCE)")

    def _owned(self) -> int:
        """The number of a new owner, whose lock this session holds."""
        while True:
            owner = secrets.randbelow(2**31)
            sql = "SELECT pg_catalog.pg_try_advisory_lock(%s, %s)"
            if self._admin.execute(sql, (_LOCKS, owner)).fetchone() == (True,):
                return owner

    def _sweep(self) -> None:
        """Drop the databases of owners that are gone. An owner has its lock before its first
        database: so the databases are listed first."""
        names = [name for (name,) in self._admin.execute(_OURS).fetchall()]
        living = {owner for (owner,) in self._admin.execute(_OWNERS, (_LOCKS,)).fetchall()}
        for name in names:
            if _owner_of(name) not in living:
                self._drop(name)

    def _filled(self, address: str) -> str:
        def value(found: re.Match[str]) -> str:
            if found[1] not in os.environ:
                raise self._error(f"state.postgres names ${found[1]}, which is not set")
            return quote(os.environ[found[1]], safe="")

        return _VARIABLE.sub(value, address)

    def _error(self, why: str) -> PoolError:
        return PoolError(f"{self._path / 'scenario.toml'}: {why}")


def _owner_of(name: str) -> int:
    return int(name.removeprefix(_PREFIX).partition("_")[0], 16)
