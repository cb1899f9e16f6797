"""What an isolated server finds of the user: nothing."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rehearsal_room.envpool.mcp_worlds.held import held
from rehearsal_room.envpool.workers.sandbox import why_no_bubblewrap
from tests.support.cli import Rehearse
from tests.support.desk_worlds import write_desk
from tests.support.paths import MCP_SERVERS
from tests.support.strangers import KEY

_LOOK = """
import json, os, socket, sys
def connects(path):
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(path)
    except OSError:
        return False
    return True
def writes(path):
    try:
        open(path, "w").close()
    except OSError:
        return False
    return True
secret, way, own = sys.argv[1:]
print(json.dumps([os.path.exists(secret), connects(way), writes(secret + "2"), writes(own)]))
"""


@pytest.fixture(autouse=True)
def _needs_bubblewrap() -> None:
    if why := why_no_bubblewrap():
        pytest.skip(why)


def test_an_isolated_server_finds_nothing_of_the_user(tmp_path: Path) -> None:
    """Neither a file nor the socket of another program, such as an agent of keys; it writes to its
    own folder."""
    package, folder, home = (tmp_path / name for name in ("package", "folder", "home"))
    for one in (package, folder, home):
        one.mkdir()
    (package / "look.py").write_text(_LOOK)
    (home / "secret").write_text("x")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home / "agent"))
        listener.listen()
        words = [sys.executable, package / "look.py", home / "secret", home / "agent", folder / "x"]
        command = held(list(map(str, words)), package=package, folder=folder, start=folder)
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == [False, False, False, True]
    assert not (home / "secret2").exists()


@pytest.mark.parametrize("way", ["script", "program"])
def test_links_in_a_package_lead_nowhere(tmp_path: Path, way: str) -> None:
    """A package whose folder of scripts or of libraries is a link shows nothing of what it leads
    to."""
    package, folder, home = (tmp_path / name for name in ("package", "folder", "home"))
    for one in (package / "bin", folder, home):
        one.mkdir(parents=True)
    (home / "secret").write_text("x")
    (home / "x.py").write_text("x")
    (package / "lib").symlink_to(home)
    program = package / "bin" / "look"
    program.write_text(f"#!{sys.executable}\nimport os, sys\nprint(os.path.exists(sys.argv[-1]))\n")
    program.chmod(0o755)
    words = [str(program), str(package / "lib" / "secret")]
    if way == "script":
        words.insert(1, str(package / "lib" / "x.py"))
    command = held(words, package=package, folder=folder, start=folder)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"


def test_an_isolated_server_gets_no_key(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that is only shown may name variables of the user; its server does not get them."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    package = write_desk(tmp_path, server='environment = ["OPENAI_API_KEY"]')
    desk = (MCP_SERVERS / "desk.py").read_text()
    refuses = "import os\nassert 'OPENAI_API_KEY' not in os.environ\n"
    (package / "desk.py").write_text(refuses + desk)
    settings = package / "scenario.toml"
    settings.write_text(settings.read_text().replace(f"{MCP_SERVERS}/", "{world}/"))
    status, out, err = rehearse("worlds", "show", package)
    assert (status, "7 tools" in out) == (0, True), err
    status, _, err = rehearse("run", package, "-p", "oracle", "-n", 1, "-o", tmp_path / "run")
    assert status == 2, "the user named it to be run, with its variables"
