"""The output folder of a synthesis."""

from pathlib import Path

import pytest

from rehearsal_room.scenarios.errors import SynthesisError
from rehearsal_room.scenarios.synth.core.attempts import AttemptSummary
from rehearsal_room.scenarios.synth.storage.output_folder import StageRecord, SynthesisFolder


def test_a_folder_keeps_the_settings_of_its_first_run(tmp_path: Path) -> None:
    """A changed setting is refused with both values, and so is a folder with other files."""
    out = tmp_path / "out"
    SynthesisFolder(out).begin({"seed": 1, "count": 2}, frozenset({"count"}))
    SynthesisFolder(out).begin({"seed": 1, "count": 3}, frozenset({"count"}))
    with pytest.raises(SynthesisError) as caught:
        SynthesisFolder(out).begin({"seed": 2, "count": 3}, frozenset({"count"}))
    assert str(caught.value) == (
        f"{out / 'synthesis.toml'}: seed: the first run had 1, this one has 2: use the same value, "
        "or choose a new folder"
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(SynthesisError, match="it is not empty and has no synthesis"):
        SynthesisFolder(tmp_path / "other").begin({}, frozenset())


def test_a_folder_has_one_process_at_a_time(tmp_path: Path) -> None:
    """The second process is refused at once."""
    first, second = SynthesisFolder(tmp_path), SynthesisFolder(tmp_path)
    with first.lock(), pytest.raises(SynthesisError, match="another process"), second.lock():
        raise AssertionError("two at once")
    with second.lock():
        pass


def test_a_broken_record_is_refused(tmp_path: Path) -> None:
    """The error names the file and what to do."""
    folder = SynthesisFolder(tmp_path)
    record = StageRecord("schema", "0", "1", True, (AttemptSummary(),), value=[1])
    folder.save("w", record)
    assert folder.record("w", "schema") == record
    assert folder.record("w", "data") is None
    file = folder.stage_file("w", "schema")
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(SynthesisError) as caught:
        folder.record("w", "schema")
    assert str(caught.value).startswith(f"{file}: ")
    assert str(caught.value).endswith("(delete the file, and a rerun writes it again)")
