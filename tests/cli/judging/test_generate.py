"""The command `generate`."""

from pathlib import Path

import pytest

from rehearsal_room.scenarios.generate.output_folder import MANIFEST
from tests.support.cli import Rehearse, json_of

SMALL = (
    *("--trade", "outdoor_shop", "--module", "orders", "--knob", "tables=12"),
    *("--knob", "tasks=2", "--seed", "3"),
)


@pytest.mark.slow
def test_worlds_are_made_and_reported(rehearse: Rehearse, tmp_path: Path) -> None:
    """The command makes as many worlds as requested and reports them; a second call keeps them."""
    folder = tmp_path / "worlds"
    made = json_of(rehearse, "worlds", "generate", "--count", 3, "-o", folder, *SMALL)
    assert (made["worlds"], made["tasks"], made["kept"], made["faults"]) == (3, 6, 0, [])
    assert made["trades"] == {"outdoor_shop": 3}
    assert made["medians"].keys() == {"tables", "rows", "tools", "steps", "unique_tools"}
    again = json_of(rehearse, "worlds", "generate", "--count", 3, "-o", folder, "--jobs", 2, *SMALL)
    assert again == {**made, "kept": 3, "wall_s": again["wall_s"]}


@pytest.mark.slow
def test_generated_worlds_pass_the_gate(rehearse: Rehearse, tmp_path: Path) -> None:
    """`scenarios check` proves a folder of generated worlds."""
    folder = tmp_path / "worlds"
    assert rehearse("worlds", "generate", "--count", 2, "-o", folder, *SMALL)[0] == 0
    report = json_of(rehearse, "worlds", "check", folder)
    assert (report["worlds"], report["tasks"], report["failures"]) == (2, 4, [])


def test_bad_input_is_one_sentence(rehearse: Rehearse, tmp_path: Path) -> None:
    """Wrong knobs, trades and folders give status 2 and one sentence; nothing is written."""
    (tmp_path / "letter.txt").write_text("Dear all")
    for flags, fault in (
        (["--count", 0, "-o", tmp_path / "a"], "the number of worlds must be at least 1, not 0"),
        (["--count", 1, "-o", tmp_path / "a", "--knob", "size=3"], "knob 'size' not found"),
        (["--count", 1, "-o", tmp_path / "a", "--knob", "rows"], "NAME=VALUE, found 'rows'"),
        (["--count", 1, "-o", tmp_path / "a", "--trade", "moon"], "trade 'moon' not found"),
        (["--count", 1, "-o", tmp_path], f"it is not empty and has no {MANIFEST}"),
    ):
        status, out, err = rehearse("worlds", "generate", *flags)
        assert (status, out) == (2, "")
        assert err.startswith("error: ")
        assert fault in err
        assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
