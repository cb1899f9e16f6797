"""Surfaces on which a dialogue is not played: each leaves it out and says how many there are."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.run_options import RunOptions
from rehearsal_room.bridges.trainers.trl import rows
from rehearsal_room.envpool.protocols.task_lists import default_tasks, specs
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.core.dialogue import ScriptedTurn, UserScript
from rehearsal_room.scenarios.format import Scenario
from tests.support.cli import Rehearse
from tests.support.paths import LIBRARY
from tests.support.protocols import served_protocols

Surface = Callable[[Rehearse, Path], str]
SHOP = find("shop_support")
AUTOMATON = 'type = "automaton"\nlines = [{ id = "how", text = "By card.", asked = ["how"] }]'
SCRIPT = 'type = "script"\nturns = [{ text = "And what does it cost?" }]'
NAMED = "shop_support:which-boots"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _command(*words: str) -> Surface:
    def surface(rehearse: Rehearse, folder: Path) -> str:
        status, out, err = rehearse(*words, "-o", folder / "made")
        assert status == 0, err
        return out + err

    return surface


def _harbor(rehearse: Rehearse, folder: Path) -> str:
    return _command("export", str(_world(folder, AUTOMATON)), "--to", "harbor")(rehearse, folder)


def _trl(_: Rehearse, folder: Path) -> str:
    run = BackgroundRun(folder / "run", [str(_world(folder, AUTOMATON))], RunOptions())
    assert [row["task"] for row in rows(run)] == list(run.tasks)
    run.close()
    return ""


def _inspect(_: Rehearse, folder: Path) -> str:
    world = _world(folder, AUTOMATON)
    named = [f"{world}:{task}" for task in ("pay-fine", "return-dune")]
    run = BackgroundRun(folder / "run", named, RunOptions())
    assert list(run.tasks_without_users("Inspect")) == ["library:return-dune"]
    return ""


def _serve(_: Rehearse, folder: Path) -> str:
    served = subprocess.run(
        [sys.executable, "-m", "rehearsal_room", "serve", str(_world(folder, SCRIPT)), "--stdio"],
        input=b"",
        capture_output=True,
        check=True,
    )
    return served.stderr.decode()


def _world(folder: Path, user: str) -> Path:
    """The mini world, whose first task, pay-fine, has a user."""
    world = folder / "library"
    shutil.copytree(LIBRARY, world)
    tasks = world / "tasks.toml"
    before, mark, rest = tasks.read_text().partition("\n[[task]]")
    tasks.write_text(f"{before}\n[task.user]\n{user}\n{mark}{rest}")
    return world


@pytest.mark.parametrize(
    ("surface", "line"),
    [
        (_command("run", "shop_support"), "8 dialogues left out: --dialogue plays them, too"),
        (_command("bench", "shop_support"), "8 dialogues left out: --dialogue plays them, too"),
        (
            _command("run", "shop_support", "--processes", "2"),
            "8 dialogues left out: --dialogue plays them, too",
        ),
        (
            _command("export", "shop_support", "flight_desk", "--to", "gym"),
            "16 dialogues left out: a dialogue is written where it is named",
        ),
        (_harbor, "1 dialogue left out: a dialogue is written where it is named"),
        (_trl, "1 dialogue left out: TRL has nobody who talks to their users"),
        (_inspect, "1 dialogue left out: Inspect has nobody who talks to their users"),
        (_serve, "1 dialogue left out: their users are not automata, and a server plays no others"),
    ],
    ids=["run", "bench", "processes", "gym", "harbor", "trl", "inspect", "serve"],
)
def test_a_surface_counts_them(
    surface: Surface,
    line: str,
    rehearse: Rehearse,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    printed = surface(rehearse, tmp_path)
    assert (printed + capfd.readouterr().err).count(line) == 1


@pytest.mark.parametrize("words", [("shop_support", "--dialogue"), (NAMED,)])
def test_no_line_is_written_where_none_is_left_out(
    words: tuple[str, ...], rehearse: Rehearse, tmp_path: Path
) -> None:
    assert "left out" not in _command("run", *words)(rehearse, tmp_path)


def test_a_world_of_dialogues_alone_is_not_empty(rehearse: Rehearse, tmp_path: Path) -> None:
    """A command that finds nothing but dialogues names the flag."""
    world = tmp_path / "boots"
    shutil.copytree(SHOP.path, world)
    text = (world / "tasks.toml").read_text()
    parts = [part for part in text.split("[[task]]") if 'type = "automaton"' in part]
    (world / "tasks.toml").write_text("".join(f"[[task]]{part}" for part in parts))
    status, _, err = rehearse("run", world, "-o", tmp_path / "run")
    assert (status, "--dialogue plays them" in err) == (2, True)


def test_a_framework_with_dialogues_alone_is_refused(tmp_path: Path) -> None:
    run = BackgroundRun(tmp_path / "run", [NAMED], RunOptions())
    with pytest.raises(SettingsError, match="all tasks are dialogues"):
        run.tasks_without_users("TRL")


def _scripted() -> Scenario:
    first = msgspec.structs.replace(SHOP.tasks[0], user=UserScript((ScriptedTurn("And then?"),)))
    return msgspec.structs.replace(SHOP, tasks=(first, *SHOP.tasks[1:]))


async def test_a_server_has_no_dialogue_that_it_cannot_play() -> None:
    """Whose user is a script is in no list, and is refused where it is named; automata are served
    over every protocol (tests/envpool/protocols/test_dialogues.py)."""
    world = _scripted()
    name = world.tasks[0].id
    listed = [spec["id"] for split in ("train", "dialogues") for spec in specs(world, split)]
    assert len(listed) == len(world.tasks) - 1
    assert name not in listed + [task.id for task in default_tasks(world)]
    async with served_protocols(world) as client:
        status, why = await client.ask("POST", "/gym/shop_support/seed_session", {"task": name})
        assert (status, "not an automaton" in str(why)) == (422, True)
        made = {"scenario": "shop_support", "task": name}
        status, why = await client.ask("POST", "/worlds", made)
        assert (status, "not an automaton" in str(why)) == (422, True)
