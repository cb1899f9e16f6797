"""Commands on a damaged log: exit 0, 1 or 2, one sentence, no traceback, nothing half-written."""

import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rehearsal_room.harness.log.schema import LOG_NAME
from tests.support.budgets import IS_LONG, repeats
from tests.support.kill_campaign import call
from tests.support.log_damage import damage

_RUN = ("run", "shop_support", "claims_desk", "-p", "oracle", "-n", "8", "-g", "2", "--seed", "11")
_COMMANDS = (
    *("show", "show RUN e000003", "replay", "judge", "judge --only unjudged"),
    *("judge --disagreements", "judge --rewards graded", "resume"),
    *("export", "export --dumps", "export --to sft", "export --to parquet"),
)
ROUNDS = repeats(short=5, long=250)  # of each command
_EXPORTS = {"episodes.jsonl", "chats.jsonl", "episodes.parquet"}


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    status, text = call(*_RUN, "-o", folder)
    assert status == 0, text
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1200 if IS_LONG else 120)
@pytest.mark.parametrize("command", _COMMANDS)
def test_a_damaged_log_ends_a_command_in_order(
    run_folder: Path, tmp_path: Path, command: str
) -> None:
    """Whatever is damaged in the log (file, pages, rows, texts, events, snapshots), a command ends
    with exit status 0, 1 or 2, a failure is one sentence that names the log, and no export and no
    draft is left of a command that failed."""
    for round_ in range(ROUNDS):
        folder = tmp_path / "run"
        shutil.copytree(run_folder, folder)
        files = set(os.listdir(folder))
        seed = f"{command} {round_}"
        what = damage(folder, random.Random(seed))
        status, text = call(*_words(command, folder))
        assert status in (0, 1, 2), (seed, what, text)
        assert not list(folder.glob(".*")), (seed, what)
        if status == 2:
            sentences = [line for line in text.splitlines() if line.startswith("error: ")]
            assert len(sentences) == 1, (seed, what, text)
            assert len(sentences[0]) < 600, (seed, what, text)
            assert not _EXPORTS & (set(os.listdir(folder)) - files), (seed, what)
        shutil.rmtree(folder)


def _words(command: str, folder: Path) -> list[object]:
    if command == "resume":
        return [*_RUN, "-o", folder, "--resume"]
    name, *rest = command.split()
    return [name, folder, *(word for word in rest if word != "RUN")]


def test_a_damaged_text_is_a_sentence(run_folder: Path, tmp_path: Path) -> None:
    """Text that is not UTF-8, in a column or inside an event, is reported in one line."""
    for column, value in (("episode", "CAST(x'ff41' AS TEXT)"), ("data", "?")):
        folder = tmp_path / column
        shutil.copytree(run_folder, folder)
        with closing(sqlite3.connect(folder / LOG_NAME, isolation_level=None)) as database:
            (data,) = database.execute("SELECT data FROM events WHERE position = 1").fetchone()
            damaged = data.replace(b"shop_support", b"shop\xff\xfesupport", 1)
            database.execute(
                f"UPDATE events SET {column} = {value} WHERE position = 1",
                (damaged,) if value == "?" else (),
            )
        status, text = call("show", folder)
        assert status == 2
        assert text.count("\n") == 1
        assert text.startswith(f"error: {folder / LOG_NAME}: the log ")
