"""Logs of Inspect AI, written and read by inspect_ai: with pytest in the environment of this door
(`just doors inspect`), since the main one has no inspect_ai.

`tests/fixtures/inspect_log` has a run and the log that version 0.2.0 wrote of it by hand.
"""

import re
import shutil
import zipfile
from pathlib import Path

import anyio
import pytest
from inspect_ai.log import read_eval_log

from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.interop.exports.formats import export
from tests.integrations.inspect.equal import main as compare
from tests.support.episode_logs import WORLD, answer, ended, judged, started, step, story
from tests.support.paths import ROOT

FIXTURE = ROOT / "tests" / "fixtures" / "inspect_log"


def _export(folder: Path, path: Path | None = None) -> Path:
    with open_reader(folder) as reader:
        return export(reader, path, to="inspect")[1]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder of a real world; its last episode is cut off."""
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(FIXTURE / "episodes.sqlite", folder)
    return folder


def test_a_log_that_was_written_by_hand_reads_back_equal(run: Path) -> None:
    """Header, samples, events and summaries are those of the log that 0.2.0 wrote."""
    compare(FIXTURE / "by_hand.eval", _export(run))


def test_a_log_has_a_name_of_inspects_and_the_same_ids_each_time(run: Path) -> None:
    """The name is in the form that Inspect's lists read; a second export is equal."""
    path = _export(run)
    assert re.fullmatch(r"[\d-]+T[\d-]+-00-00_library_[0-9a-f]{22}\.eval", path.name)
    compare(path, _export(run, run / "again.eval"))
    assert sorted(one.name for one in run.glob("*.eval")) == sorted([path.name, "again.eval"])
    assert read_eval_log(str(path)).status == "cancelled"  # one episode is cut off


def _long_run(folder: Path, turns: int) -> None:
    async def write() -> None:
        async with open_log(folder) as log:
            log.add_scenario(WORLD)
            events = [started(), *(step(n) for n in range(turns)), answer(), ended(turns + 1)]
            for record in story("e", [*events, judged()]):
                log.append(record)

    anyio.run(write)


def test_size_is_linear_in_turns(tmp_path: Path) -> None:
    """Twice as many turns make a log at most twice as large (uncompressed)."""
    sizes = []
    for turns in (100, 200):
        _long_run(tmp_path / str(turns), turns)
        with zipfile.ZipFile(_export(tmp_path / str(turns))) as file:
            sizes.append(sum(one.file_size for one in file.infolist()))
    assert sizes[1] <= 2.05 * sizes[0]


def test_a_log_without_its_world_is_refused(tmp_path: Path) -> None:
    """Without the world there are no messages to show; no file is left."""

    async def write() -> None:
        async with open_log(tmp_path) as log:
            for record in story("e", [started(), answer(), ended(1), judged(Label.COMPLETED)]):
                log.append(record)

    anyio.run(write)
    with pytest.raises(LogError, match="does not hold the world of episode 'e'"):
        _export(tmp_path, tmp_path / "out.eval")
    assert not (tmp_path / "out.eval").exists()
