"""Seed files."""

from pathlib import Path

import pytest

from rehearsal_room.scenarios.errors import SynthesisError
from rehearsal_room.scenarios.synth.core.seeds import read_seeds
from rehearsal_room.scenarios.synth.core.world_drafts import (
    SeedScenario,
)


def test_seeds_are_read_line_by_line(tmp_path: Path) -> None:
    """Blank lines and a byte order mark are skipped."""
    path = tmp_path / "seeds.jsonl"
    path.write_text('\ufeff{"name": "A b", "description": "c"}\n\n{"name":"D","description":"e"}')
    assert read_seeds(path) == (SeedScenario("A b", "c"), SeedScenario("D", "e"))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "the file has no seed"),
        ('{"name": "A"}', "line 1: object missing required field `description`"),
        ('{"name": "A", "description": "b"}\n{"name": 3}', "line 2: name: expected `str`"),
        ('{"name": "A", "description": " "}', "line 1: description: must not be empty"),
        ('{"name": "?!", "description": "b"}', "line 1: name: '?!' has no letter"),
        ('{"name": "A", "description": "b"}\n' * 2, "line 2: name: 'A' occurs twice"),
        ("{", "line 1: "),
    ],
)
def test_a_broken_seed_file_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    """The error names file, line and field."""
    path = tmp_path / "seeds.jsonl"
    path.write_text(text)
    with pytest.raises(SynthesisError) as caught:
        read_seeds(path)
    assert str(caught.value).startswith(f"{path}: {fault}")


def test_a_missing_seed_file_is_refused(tmp_path: Path) -> None:
    """The error states that the seeds cannot be read."""
    with pytest.raises(SynthesisError, match="the seeds cannot be read"):
        read_seeds(tmp_path / "none.jsonl")
