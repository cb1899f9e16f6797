"""A server that keeps its state in SQLite: Python's sqlite3, in a process of its own.

Run as a program, it answers pickled requests on its standard input; `DatabaseServer` starts it.
"""

import pickle
import select
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

Rows = list[tuple[int | None, tuple[Any, ...]]]  # rowid (None: there are none) and values
Dump = dict[str, tuple[list[tuple[str, str]], Rows]]  # table -> columns (name, type) and rows


class _Server:
    def __init__(self) -> None:
        self.connections: dict[int, sqlite3.Connection] = {}

    def start(self, path: str, settings: list[str]) -> None:
        """Make a database; the last setting is one that every connection gets."""
        self.close_all()
        self.path, self.settings = path, settings
        for sql in settings:
            self.connection(0).execute(sql).fetchall()

    def connection(self, number: int) -> sqlite3.Connection:
        if number not in self.connections:
            connection = sqlite3.connect(self.path, timeout=0, isolation_level=None)
            connection.execute("PRAGMA cache_size=5")  # a large transaction is spilled
            connection.execute("PRAGMA secure_delete=OFF")  # freed pages stay as they are
            connection.execute(self.settings[-1])
            self.connections[number] = connection
        return self.connections[number]

    def run(self, number: int, sql: str, *parameters: Any) -> str | None:
        try:
            self.connection(number).execute(sql, parameters).fetchall()
        except sqlite3.Error as exc:
            return str(exc)
        return None

    def transfer(self, count: int) -> int:
        """Move amounts between accounts that lie far apart in the file, in transactions that do not
        wait for a lock; the number of statements that failed."""
        failed = 0
        for number in range(count):
            for sql in (
                "BEGIN IMMEDIATE",
                f"UPDATE accounts SET amount = amount - 1 WHERE id = {number % 300 + 1}",
                f"UPDATE accounts SET amount = amount + 1 WHERE id = {number * 7 % 300 + 601}",
                "COMMIT",
            ):
                failed += self.run(0, sql) is not None
        return failed

    def close(self, number: int) -> None:
        if number in self.connections:
            self.connections.pop(number).close()

    def close_all(self) -> None:
        for number in list(self.connections):
            self.close(number)

    def dump(self) -> Dump | None:
        """What is committed; None: a transaction that has not ended locks the file."""
        for number in (-1, *self.connections):
            try:
                connection = self.connection(number)
                if not connection.in_transaction:
                    return self._dump(connection)
            except sqlite3.OperationalError as exc:
                assert "locked" in str(exc), exc
        return None

    def _dump(self, connection: sqlite3.Connection) -> Dump:
        tables: Dump = {}
        connection.execute("BEGIN")
        connection.text_factory = _text
        try:
            found = connection.execute(
                "SELECT name, sql FROM sqlite_schema WHERE type = 'table'"
                " AND name NOT LIKE 'sqlite!_%' ESCAPE '!' AND name NOT LIKE 'f!_%' ESCAPE '!'"
            ).fetchall()
            for name, sql in found:
                info = connection.execute(f"PRAGMA table_xinfo({name})").fetchall()
                columns = [(row[1], row[2]) for row in info if row[6] != 1]
                listed = ", ".join(column for column, _ in columns)
                rowid = "NULL" if "WITHOUT ROWID" in sql else "rowid"
                rows = connection.execute(f"SELECT {rowid}, {listed} FROM {name}").fetchall()
                tables[name] = columns, [(row[0], row[1:]) for row in rows]
        finally:
            connection.execute("COMMIT")
        return tables


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


class DatabaseServer:
    """The process, as a context manager. `ask` calls one of `_Server`'s methods in it."""

    def __enter__(self) -> Self:
        command = [sys.executable, str(Path(__file__))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it as the kernel would, in the middle of whatever it does."""
        self._process.kill()
        self._process.communicate()

    def ask(self, name: str, *arguments: Any) -> Any:
        self.send(name, *arguments)
        return self.receive()

    def send(self, name: str, *arguments: Any) -> None:
        """Begin what `receive` waits for."""
        assert self._process.stdin
        pickle.dump((name, arguments), self._process.stdin)
        self._process.stdin.flush()

    def receive(self) -> Any:
        assert self._process.stdout
        return pickle.load(self._process.stdout)

    def is_busy(self) -> bool:
        """Whether the answer is still to come."""
        assert self._process.stdout
        return not select.select([self._process.stdout], [], [], 0)[0]


def _main() -> None:
    server = _Server()
    while True:
        try:
            name, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(getattr(server, name)(*arguments), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _main()
