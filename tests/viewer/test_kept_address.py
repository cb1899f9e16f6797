"""The address that stays: who gets the token. The other side is a raw socket, which records what
the command sends, and a relay, as hostile programs on the machine could run them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server, socket
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.viewer.server import kept_address
from rehearsal_room.viewer.server.kept_address import (
    KeptAddress,
    is_free,
    is_served,
    proof_of,
    show_there,
)
from rehearsal_room.viewer.server.serve import ViewerSettings, serve
from tests.support.cli import Rehearse


@contextmanager
def recording(answer: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A program that gives every request this answer; its port and what it was sent."""
    sent: list[bytes] = []

    def run(listener: socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                sent.append(connection.recv(65_536))
                connection.sendall(answer)

    with create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=run, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1], sent
        listener.shutdown(2)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"proof":"\xff"}',
        b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"proof":123}',
        b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 302 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
    ],
)
def test_another_program_on_the_port_gets_no_token(
    answer: bytes,
    rehearse: Rehearse,
    mutants: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The command serves on a free port then, with a token that was never on that port, and says
    that links to this address do not last."""
    served: list[ViewerSettings] = []

    async def remember(settings: ViewerSettings, ready: Any) -> None:
        served.append(settings)

    monkeypatch.setattr("rehearsal_room.cli.look.view.serve", remember)
    with recording(answer) as (port, sent):
        address = KeptAddress(port, "the-kept-token")
        monkeypatch.setattr("rehearsal_room.cli.look.view.kept_address", lambda: address)
        status, _, err = rehearse("view", mutants, "--no-open")
    assert status == 0
    assert f"port {port}, which is kept for your viewer, is in use" in err
    assert (served[0].port, served[0].token) == (0, "")
    assert len(sent) == 1
    assert b"the-kept-token" not in sent[0]


@pytest.mark.anyio
async def test_a_relay_proves_nothing(mutants: Path) -> None:
    """A program that passes the question on to the true viewer, on another port, gets an answer for
    that port."""
    addresses: list[str] = []
    listens = anyio.Event()
    async with anyio.create_task_group() as group:

        def ready(url: str) -> None:
            addresses.append(url)
            listens.set()

        group.start_soon(serve, ViewerSettings([mutants], token="kept"), ready)
        await listens.wait()
        port = int(addresses[0].split(":")[2].split("/")[0])
        assert await anyio.to_thread.run_sync(is_served, KeptAddress(port, "kept"))
        assert not await anyio.to_thread.run_sync(is_served, KeptAddress(port, "other"))
        assert not is_free(port)
        word = "0f" * 16
        proof = proof_of("kept", port, word)
        body = f'{{"proof":"{proof}"}}'.encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with pytest.MonkeyPatch.context() as patch, recording(head + body) as (relay, _):
            patch.setattr(kept_address.secrets, "token_hex", lambda _: word)
            assert not await anyio.to_thread.run_sync(is_served, KeptAddress(relay, "kept"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kept_address, "distribution", SimpleNamespace(version=lambda: "0.0"))
            with pytest.raises(SettingsError, match=r"of version .*, and this command of 0\.0"):
                await anyio.to_thread.run_sync(_show_nothing, KeptAddress(port, "kept"))
        group.cancel_scope.cancel()


def _show_nothing(address: KeptAddress) -> None:
    show_there(address, folders=(), bases=(), worlds=())
