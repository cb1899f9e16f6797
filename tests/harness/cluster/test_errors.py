"""What cannot run on Ray is refused by one sentence, before anything is started. Without Ray."""

import socket
import sys
import threading
from pathlib import Path

import pytest

from rehearsal_room.harness.cluster.address import address_of
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.cluster import ClusterSettings
from tests.support.cli import Rehearse


def test_ray_that_is_not_installed_is_one_sentence(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the command that installs it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("engine", "connection", "node", "ray_worker", "actor"):
        monkeypatch.delitem(sys.modules, f"harness.cluster.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)  # as where it is missing
    words = ("run", "shop_support", "--engine", "ray", "-o", tmp_path / "run")
    status, out, err = rehearse(*words)
    assert (status, out) == (2, "")
    assert err == (
        "error: engine: 'ray' needs the package ray: pip install 'rehearsal-room[ray]'\n"
    )
    assert not (tmp_path / "run").exists()


def test_policy_local_is_refused(rehearse: Rehearse, tmp_path: Path) -> None:
    """Its model is in the process that plays; the message says what to do."""
    words = ("run", "shop_support", "--engine", "ray", "-p", "local", "-m", tmp_path)
    status, _, err = rehearse(*words, "-o", tmp_path / "run")
    assert (status, len(err.splitlines())) == (2, 1)
    assert err.startswith("error: engine: policy 'local' has its model in the process that plays;")


def test_an_address_comes_from_the_flag_or_the_environment() -> None:
    """The flag wins; without either, and with `local`, a cluster is started."""
    environment = {"RAY_ADDRESS": "auto"}
    assert address_of(ClusterSettings(), environment) == "auto"
    assert address_of(ClusterSettings(address="local"), environment) == ""
    assert address_of(ClusterSettings(), {}) == ""


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ray://head:10001", "is a port of the Ray Client, which cannot stream records"),
        ("head", "'head' is not an address of a Ray cluster"),
        ("head:port", "'head:port' is not an address of a Ray cluster"),
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1 (["),
    ],
)
def test_an_address_that_cannot_be_joined_is_one_sentence(address: str, message: str) -> None:
    """What was given, what is wrong, and what to do."""
    with pytest.raises(SettingsError) as caught:
        address_of(ClusterSettings(address=address), {})
    assert message in str(caught.value)


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_another_server_is_not_taken_for_ray(greeting: bytes) -> None:
    """Ray itself would wait for minutes and then kill the process."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(greeting)

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(SettingsError, match="another server listens there"):
            address_of(ClusterSettings(address=address), {})
        thread.join()


def test_a_grpc_server_may_be_ray() -> None:
    """A server that greets with an HTTP/2 frame of settings is asked further."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert address_of(ClusterSettings(address=address), {}) == address
        thread.join()
