"""Run folders, files and messages of a stranger, and what shows that they did something."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.ledger_world import write_package

KEY = "sk-of-this-user"


def begun_by_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From here on this is another user's machine: files that were marked before are not its."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-of-another"))


def tell_tale_package(folder: Path, trace: Path) -> Path:
    """A package whose code makes a file where it runs in this process."""
    package = write_package(folder)
    tools = package / "tools.py"
    spy = f"\nimport os\nif os.getpid() == {os.getpid()}:\n    open({str(trace)!r}, 'w').close()\n"
    tools.write_text(tools.read_text() + spy)
    return package


def ran_here(trace: Path) -> bool:
    """Whether a tell-tale package ran in this process; the trace is removed."""
    ran = trace.exists()
    trace.unlink(missing_ok=True)
    return ran


@contextmanager
def listener(status: int = 500, body: bytes = b"", to: str = "") -> Iterator[tuple[str, list[str]]]:
    """A server's URL, and the headers of each request that it got; it answers with this status and
    JSON, or sends to another URL."""
    heard: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def _hear(self) -> None:
            heard.append(str(self.headers))
            self.send_response(307 if to else status)
            if to:
                self.send_header("Location", to)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = _hear  # the names are the library's

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", heard
        finally:
            server.shutdown()
            thread.join()
