"""A run folder of an older log format: every command refuses it by the same sentence."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rehearsal_room.harness.log.schema import LOG_NAME
from tests.support.cli import Rehearse

COMMANDS = (
    *(("show", "RUN"), ("show", "RUN", "e000000"), ("replay", "RUN"), ("judge", "RUN")),
    *(("judge", "study", "RUN"), ("judge", "label", "RUN"), ("judge", "RUN", "--disagreements")),
    ("export", "RUN", "-o", "out.jsonl"),
)


@pytest.fixture(scope="module")
def old_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of format 1, whose run.toml has a key that does not exist any more."""
    folder = tmp_path_factory.mktemp("old")
    with closing(sqlite3.connect(folder / LOG_NAME)) as log:
        log.executescript(
            "CREATE TABLE meta (key TEXT PRIMARY KEY, value); CREATE TABLE worlds (digest, body);"
            "CREATE TABLE events (position INTEGER PRIMARY KEY, episode TEXT, kind TEXT);"
            "CREATE INDEX milestones ON events (position) WHERE kind <> 'step';"
            "INSERT INTO meta VALUES ('format', '1');"
        )
    (folder / "run.toml").write_text('scenarios = ["shop_support"]\n[mqtt]\nprefix = "x"\n')
    return folder


def sentence(folder: Path) -> str:
    return (
        f"error: {folder / LOG_NAME}: the log has format 1, and this version reads and writes "
        "format 2; open it with the version of Rehearsal that wrote it\n"
    )


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_old_run_is_refused(
    rehearse: Rehearse, old_run: Path, command: tuple[str, ...], tmp_path: Path
) -> None:
    """The log's format is read before the settings of the run, which may have changed as well."""
    values = {"RUN": old_run, "out.jsonl": tmp_path / "out.jsonl"}
    assert rehearse(*(values.get(word, word) for word in command)) == (2, "", sentence(old_run))


def test_an_old_run_is_not_resumed(rehearse: Rehearse, old_run: Path) -> None:
    """--resume refuses it, too."""
    assert rehearse("run", "-o", old_run, "--resume") == (2, "", sentence(old_run))
