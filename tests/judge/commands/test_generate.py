"""The verb generate."""

from pathlib import Path

from scenarios.generate.output_folder import MANIFEST
from tests.support.cli import Rehearse, json_of

SMALL = (
    *("--trade", "outdoor_shop", "--module", "orders", "--knob", "tables=12"),
    *("--knob", "tasks=2", "--seed", "3"),
)


def test_worlds_are_made_and_told(rehearse: Rehearse, tmp_path: Path) -> None:
    """The verb makes as many worlds as asked for and reports them; asked again, it keeps them."""
    folder = tmp_path / "worlds"
    made = json_of(rehearse, "generate", "--count", 3, "-o", folder, *SMALL)
    assert (made["worlds"], made["tasks"], made["kept"], made["faults"]) == (3, 6, 0, [])
    assert made["trades"] == {"outdoor_shop": 3}
    assert made["medians"].keys() == {"tables", "rows", "tools", "steps", "unique_tools"}
    again = json_of(rehearse, "generate", "--count", 3, "-o", folder, "--jobs", 2, *SMALL)
    assert again == {**made, "kept": 3, "wall_s": again["wall_s"]}


def test_what_is_made_passes_the_gate(rehearse: Rehearse, tmp_path: Path) -> None:
    """The verb `scenarios check` proves a folder that the verb has made."""
    folder = tmp_path / "worlds"
    assert rehearse("generate", "--count", 2, "-o", folder, *SMALL)[0] == 0
    report = json_of(rehearse, "scenarios", "check", folder)
    assert (report["worlds"], report["tasks"], report["failures"]) == (2, 4, [])


def test_bad_input_is_told_in_a_sentence(rehearse: Rehearse, tmp_path: Path) -> None:
    """Wrong knobs, trades and folders end with 2 and one sentence, and nothing is written."""
    (tmp_path / "letter.txt").write_text("Dear all")
    for flags, fault in (
        (["--count", 0, "-o", tmp_path / "a"], "the number of worlds must be at least 1, not 0"),
        (["--count", 1, "-o", tmp_path / "a", "--knob", "size=3"], "knob 'size' not found"),
        (["--count", 1, "-o", tmp_path / "a", "--knob", "rows"], "expected NAME=VALUE, got 'rows'"),
        (["--count", 1, "-o", tmp_path / "a", "--trade", "moon"], "trade 'moon' not found"),
        (["--count", 1, "-o", tmp_path], f"it is not empty and has no {MANIFEST}"),
    ):
        status, out, err = rehearse("generate", *flags)
        assert (status, out) == (2, "")
        assert err.startswith("error: ")
        assert fault in err
        assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
