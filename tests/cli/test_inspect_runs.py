"""Commands on a logged run: their progress, and packages that have been moved."""

import shutil
from pathlib import Path

import pytest

from rehearsal_room.harness.rollout import progress_display
from tests.support.cli import Rehearse, without_trust_line
from tests.support.ledger_world import write_package


@pytest.fixture
def run(rehearse: Rehearse, tmp_path: Path) -> Path:
    """A run of the oracle in a package of its own."""
    folder = tmp_path / "run"
    status, _, err = rehearse("run", write_package(tmp_path / "ledger"), "-o", folder)
    assert status == 0, err
    return folder


@pytest.mark.parametrize(("verb", "what"), [("replay", "episodes"), ("judge", "episodes judged")])
def test_progress_is_shown(
    rehearse: Rehearse, run: Path, monkeypatch: pytest.MonkeyPatch, verb: str, what: str
) -> None:
    """`replay` and `judge` count episodes on standard error, up to the last one."""
    monkeypatch.setattr(progress_display, "LINE_EVERY", 0.0)
    status, _, err = rehearse(verb, run)
    lines = without_trust_line(err).splitlines()
    assert status == 0
    assert lines[-1].split(":")[0] == f"{len(lines)} of {len(lines)} {what}"


def test_a_package_that_was_moved_is_named(rehearse: Rehearse, run: Path, tmp_path: Path) -> None:
    """Replay names the folder and the digest of the missing package, and offers --world, which
    works."""
    there = tmp_path / "ledger"
    shutil.move(there, tmp_path / "elsewhere")
    status, _, err = rehearse("replay", run)
    assert status == 2
    assert f"is no longer at {there}; put it back there, or replay with --world FOLDER" in err
    assert "(digest " in err
    assert rehearse("replay", run, "--world", tmp_path / "elsewhere")[0] == 0


def test_the_help_of_train_leads_to_a_dry_run(rehearse: Rehearse) -> None:
    """`train --help` says to look at the settings first."""
    status, out, _ = rehearse("train", "--help")
    assert status == 0
    assert "--dry-run first" in " ".join(out.split())
