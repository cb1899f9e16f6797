"""What `rehearse view` prints; bad input: one sentence, exit status 2."""

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from rehearsal_room.cli.look import view
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.cli import Rehearse


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A viewer that this user runs beside the tests is not asked."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_the_address_comes_with_what_to_do(
    mutants: Path, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first line is the address alone; the second says how to see the page and how to end."""

    async def ready_at_once(_: object, ready: Callable[[str], None]) -> None:
        ready("http://127.0.0.1:8/?token=t")

    monkeypatch.setattr(view, "serve", ready_at_once)
    status, _, err = rehearse("view", mutants, "--no-open")

    assert (status, err.splitlines()) == (
        0,
        ["http://127.0.0.1:8/?token=t", "open this address in a browser; Ctrl-C ends it"],
    )


def test_an_episode_is_opened(
    mutants: Path, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`RUN#EPISODE` leads to the episode's place in the page; one that is not there is refused."""

    async def ready_at_once(_: object, ready: Callable[[str], None]) -> None:
        ready("http://127.0.0.1:8/?token=t")

    monkeypatch.setattr(view, "serve", ready_at_once)
    _, _, err = rehearse("view", f"{mutants}#e000001", "--no-open")
    place = f"#/run/{run_id(mutants)}/episode/e000001"
    assert err.splitlines()[0] == f"http://127.0.0.1:8/?token=t{place}"
    status, _, err = rehearse("view", f"{mutants}#e9", "--no-open")
    assert (status, err) == (2, f"error: {mutants}: there is no episode 'e9'\n")


def test_no_program_is_given_the_token(
    mutants: Path, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The browser is opened with a file that only this user can read and that leads to the page; it
    goes when the viewer ends."""
    opened: list[str] = []
    pages: list[str] = []

    def browser(address: str) -> bool:
        opened.append(address)
        file = Path(address.removeprefix("file://"))
        assert (file.stat().st_mode & 0o077, file.parent.stat().st_mode & 0o077) == (0, 0)
        pages.append(file.read_text())
        return True

    async def ready_at_once(_: object, ready: Callable[[str], None]) -> None:
        ready("http://127.0.0.1:8/?token=t")

    monkeypatch.setattr(view, "serve", ready_at_once)
    monkeypatch.setattr(view.webbrowser, "open", browser)
    assert rehearse("view", mutants)[0] == 0
    assert "token" not in opened[0]
    assert "url=http://127.0.0.1:8/?token=t" in pages[0]
    assert not Path(opened[0].removeprefix("file://")).exists()


def test_a_wrong_folder(tmp_path: Path, rehearse: Rehearse) -> None:
    """A folder that is not there, and one that is not a run."""
    for folder, sentence in (
        (tmp_path / "nowhere", "is not a folder; name the folder of a run"),
        (tmp_path, f"is not a run: it has no log ({LOG_NAME}) and no train.toml, nor has a folder"),
        (tmp_path, "or make one: rehearse run shop_support -p mutant -o runs/first"),
    ):
        status, _, err = rehearse("view", folder, "--no-open")
        assert (status, err.count("\n")) == (2, 1)
        assert sentence in err


def test_a_log_that_was_cut(mutants: Path, tmp_path: Path, rehearse: Rehearse) -> None:
    """Half of a copied file."""
    data = (mutants / LOG_NAME).read_bytes()
    (tmp_path / LOG_NAME).write_bytes(data[: len(data) // 2])
    status, _, err = rehearse("view", tmp_path, "--no-open")

    assert status == 2
    assert err == (
        f"error: {tmp_path / LOG_NAME}: the log cannot be read: database disk image is malformed\n"
    )


def test_a_port_in_use(mutants: Path, rehearse: Rehearse) -> None:
    """The port is named."""
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        status, _, err = rehearse("view", mutants, "--no-open", "--port", port)

    assert status == 2
    assert err.startswith(f"error: --port: 127.0.0.1:{port}: cannot listen there: ")


def test_export_names_what_is_missing(mutants: Path, tmp_path: Path, rehearse: Rehearse) -> None:
    """A run, a folder for the file, the built page."""
    for words, sentence in (
        (("view", "--export", tmp_path / "x.html"), "--export: name the run"),
        (("view", mutants, "--export", tmp_path / "no" / "x.html"), "its folder does not exist"),
        (("view", "x", "--bus", "mqtt://h", "--export", "x"), "cannot be exported"),
    ):
        status, _, err = rehearse(*words)
        assert status == 2
        assert sentence in err
