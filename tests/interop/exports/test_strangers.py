"""Exports of a stranger's log write in their own folder, and outputs into what is there."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rehearsal_room.harness.log.schema import LOG_NAME
from tests.support.cli import Rehearse
from tests.support.paths import LIBRARY


@pytest.fixture
def run(rehearse: Rehearse, tmp_path: Path) -> Path:
    """A run of one episode, five folders down."""
    folder = tmp_path / "a" / "b" / "c" / "run"
    assert rehearse("run", "shop_support:cancel-duplicate", "-o", folder)[0] == 0
    return folder


def rename_episode(run: Path, name: str) -> None:
    """Give the episodes of a log another name."""
    with closing(sqlite3.connect(run / LOG_NAME)) as database:
        database.execute("UPDATE events SET episode = ?", (name,))
        database.commit()


def files_below(folder: Path) -> set[str]:
    """All files, by their paths."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["../../x", "/tmp/rehearse-hostile-x", "a/../../../x"])
@pytest.mark.parametrize("to", ["atif", "hf-trace", "jsonl"])
def test_an_episode_that_is_a_path_is_refused(
    rehearse: Rehearse, run: Path, tmp_path: Path, to: str, name: str
) -> None:
    """No format writes outside of its folder: the log is damaged, says one sentence."""
    rename_episode(run, name)
    before = files_below(tmp_path)
    status, _, err = rehearse("export", run, "--to", to, "-o", tmp_path / "a" / "out")
    assert status == 2
    assert "is not the name of an episode" in err
    assert len(err.strip().splitlines()) == 1
    new = files_below(tmp_path) - before
    assert all(path.startswith("a/out") or "episodes.sqlite" in path for path in new)
    assert not Path("/tmp/rehearse-hostile-x.json").exists()


@pytest.mark.parametrize(("to", "name"), [("jsonl", "episodes.jsonl"), ("hf-trace", "hf-trace")])
def test_a_default_output_is_in_the_runs_folder(
    rehearse: Rehearse, run: Path, tmp_path: Path, to: str, name: str
) -> None:
    """A link in a stranger's folder, where an export would go, is replaced, and not followed."""
    target = tmp_path / "mine"
    if to == "jsonl":
        target.write_text("mine")
    else:
        target.mkdir()
    (run / name).symlink_to(target)
    assert rehearse("export", run, "--to", to)[0] == 0
    assert (target.read_text() if to == "jsonl" else os.listdir(target)) in ("mine", [])
    assert not (run / name).is_symlink()


def test_outputs_are_written_through_links(rehearse: Rehearse, run: Path, tmp_path: Path) -> None:
    """-o and --json that name a link write into its target, and the link stays."""
    commands: list[tuple[object, ...]] = [
        ("export", run, "--to", "jsonl", "-o"),
        ("export", run, "--to", "otlp", "-o"),
        ("export", run, "--to", "parquet", "-o"),
        ("export", "shop_support", "--to", "gym", "-o"),
        ("failures", run, "-o"),
        ("replay", run, "--json"),
        ("view", run, "--export"),
        ("worlds", "check", LIBRARY, "--allow-list"),
        ("show", "profile", run, "--trace"),
    ]
    for number, command in enumerate(commands):
        target, link = tmp_path / f"{number}.target", tmp_path / f"{number}.link"
        target.touch()
        link.symlink_to(target.name)
        status, _, err = rehearse(*command, link)
        assert status == 0, err
        assert link.is_symlink(), command
        assert target.stat().st_size > 0, command


def test_the_name_of_an_inspect_log_is_one_name(rehearse: Rehearse, run: Path) -> None:
    """A scenario that is called like a path names a file in the run's folder."""
    from rehearsal_room.interop.exports.inspect_names import _in_a_file_name

    assert _in_a_file_name("../../shop_support") == "-shop-support"


def test_a_log_that_is_a_link_is_not_written(rehearse: Rehearse, run: Path, tmp_path: Path) -> None:
    """A stranger's folder whose log leads to a log of the user appends nothing to it."""
    before = (run / LOG_NAME).read_bytes()
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / LOG_NAME).symlink_to(run / LOG_NAME)
    status, _, err = rehearse("judge", stranger)
    assert (status, "this is a link" in err) == (2, True)
    assert (run / LOG_NAME).read_bytes() == before
