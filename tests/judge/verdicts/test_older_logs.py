"""Logs that were written before a field existed."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from rehearsal_room.harness.log.schema import LOG_NAME
from tests.support.cli import Rehearse, json_of
from tests.support.judged_runs import labels_of, rewards_of, run_of_both, verdicts_of


def _without_verifier_runs(folder: Path) -> int:
    """Make the log one of before verdicts said where their verifier ran. Returns their number."""
    num_verdicts = 0
    with closing(sqlite3.connect(folder / LOG_NAME)) as database, database:
        for position, data in database.execute(
            "SELECT position, data FROM events WHERE kind = 'judged'"
        ).fetchall():
            event = msgspec.msgpack.decode(data)
            num_verdicts += event.pop("verifier_run", None) is not None
            encoded = msgspec.msgpack.encode(event)
            database.execute("UPDATE events SET data = ? WHERE position = ?", (encoded, position))
    return num_verdicts


def test_verdicts_without_a_verifier_run(rehearse: Rehearse, tmp_path: Path) -> None:
    """A log whose verdicts do not say where their verifier ran is read, shown, exported, replayed
    and judged again; the new verdicts say it."""
    folder = run_of_both(rehearse, tmp_path / "old")
    before = rehearse("show", folder)
    labels, rewards = labels_of(folder, "code"), rewards_of(folder, "code")
    assert _without_verifier_runs(folder) == len(labels) == 12

    assert {each[-1].verifier_run for each in verdicts_of(folder, "code").values()} == {None}
    assert rehearse("show", folder) == before
    assert (labels_of(folder, "code"), rewards_of(folder, "code")) == (labels, rewards)
    for episode in labels:
        status, out, err = rehearse("show", folder, episode)
        assert status == 0 and "verifier run" not in out, err
    exported = tmp_path / "out.jsonl"
    assert rehearse("export", folder, "-o", exported)[0] == 0
    assert len(exported.read_text(encoding="utf-8").splitlines()) == 12
    assert json_of(rehearse, "replay", folder)["divergences"] == []

    assert json_of(rehearse, "judge", folder)["labels"]["completed"] == 6
    newest = {name: each[-1].verifier_run for name, each in verdicts_of(folder, "code").items()}
    assert {run.where for run in newest.values() if run is not None} == {"in_process"}
    assert labels_of(folder, "code") == labels
