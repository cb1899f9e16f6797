"""A new PostgreSQL server, for tests: Debian's programs, in a temporary folder."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SETTINGS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200")


def programs() -> Path | None:
    """The folder of PostgreSQL's newest programs; None: it is not installed."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4])
    )
    if found:
        return found[-1].parent
    there = shutil.which("initdb")
    return Path(there).resolve().parent if there else None


@contextmanager
def cluster() -> Iterator[str]:
    """The address of a new server, as its superuser; its password is `pass/word`. It ends with the
    block."""
    folder = Path(tempfile.mkdtemp(prefix="rehearse-postgres-"))
    user = "postgres" if os.geteuid() == 0 else None  # initdb refuses root
    if user:
        shutil.chown(folder, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data, secret = folder / "data", folder / "secret"
    secret.write_text("pass/word\n")
    secret.chmod(0o644)

    def run(name: str, *words: str) -> None:
        bin_folder = programs()
        assert bin_folder is not None
        # pg_ctl's server inherits its streams, so that they are not read to their end.
        with (folder / "said").open("w") as said:
            done = subprocess.run(
                [str(bin_folder / name), *words], user=user, cwd=folder, stdout=said, stderr=said
            )
        if done.returncode:
            raise RuntimeError(f"{name}: {(folder / 'said').read_text()}")

    try:
        run(
            "initdb", "-D", str(data), "-U", "postgres", "-A", "scram-sha-256", "-E", "UTF8",
            "--locale=C.UTF-8", "-N", f"--pwfile={secret}",
        )  # fmt: skip
        settings = " ".join(f"-c {one}" for one in _SETTINGS)
        options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder} {settings}"
        run("pg_ctl", "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://postgres:pass%2Fword@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
