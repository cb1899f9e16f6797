"""The file of labels that people gave."""

from pathlib import Path

import pytest

from rehearsal_room.harness.core.events import Label
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.reliability.annotations import (
    HumanLabel,
    LabelBook,
    labels_of,
    read_labels,
)

DIGESTS = {"e1": "d1", "e2": "d2"}


def _label_of(episode: str, label: Label | None, labeller: str = "ann") -> HumanLabel:
    return HumanLabel(episode, label, DIGESTS.get(episode, ""), labeller, "a ✓ note", False, 7.5)


def test_added_labels_are_read(tmp_path: Path) -> None:
    """Labels are read completely, by line, and a book that is opened again has them by labeller."""
    path = tmp_path / "labels.jsonl"
    book = LabelBook(path)
    first, second = _label_of("e1", Label.COMPLETED), _label_of("e1", Label.AGENT_ERROR, "bob")
    book.add(first)
    book.add(second)
    assert read_labels(path).labels == {1: first, 2: second}
    assert LabelBook(path).by("bob") == {"e1": second}
    assert labels_of(read_labels(path), DIGESTS.get) == {
        "e1": {"ann": Label.COMPLETED, "bob": Label.AGENT_ERROR}
    }


def test_the_last_label_counts(tmp_path: Path) -> None:
    """A later line of the same labeller replaces the earlier one, and null withdraws it."""
    path = tmp_path / "labels.jsonl"
    book = LabelBook(path)
    for label in (Label.COMPLETED, Label.AGENT_ERROR):
        book.add(_label_of("e1", label))
    for label in (Label.COMPLETED, None):
        book.add(_label_of("e2", label))
    assert read_labels(path).labels == {2: _label_of("e1", Label.AGENT_ERROR)}


def test_a_file_written_by_hand(tmp_path: Path) -> None:
    """An episode and a label on each line are enough; empty lines are ignored."""
    path = tmp_path / "labels.jsonl"
    path.write_text('\n{"episode": "e1", "label": "completed"}\n\n', encoding="utf-8")
    assert read_labels(path).labels == {2: HumanLabel("e1", Label.COMPLETED)}
    assert labels_of(read_labels(path), DIGESTS.get) == {"e1": {"": Label.COMPLETED}}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            '{"episode": "e1", "label": "done"}',
            "Invalid enum value 'done' - at `$.label`; the labels are"
            " completed, partially_completed, agent_error, environment_error",
        ),
        ('{"label": "completed"}', "Object missing required field `episode`"),
        (
            '{"episode": "e1", "label": "completed", "lable": 1}',
            "Object contains unknown field `lable`",
        ),
        (
            '{"episode": 1, "label": "completed"}',
            "Expected `str`, got `int` - at `$.episode`",
        ),
        ("[]", "Expected `object`, got `array`"),
        ('{"episode": "e1"', "Input data was truncated"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\n{}"], ids=["whole", "more"])
def test_a_bad_line_is_named(tmp_path: Path, line: str, why: str, end: str) -> None:
    """The error names file, line and field."""
    path = tmp_path / "labels.jsonl"
    path.write_text(f'{{"episode": "e0", "label": "completed"}}\n{line}{end}', encoding="utf-8")
    with pytest.raises(JudgeError) as caught:
        read_labels(path)
    assert str(caught.value) == f"{path}: line 2: {why}"


def test_a_complete_last_line_is_not_treated_as_cut_off(tmp_path: Path) -> None:
    """A mistake in a last line without its line feed is reported like any other."""
    path = tmp_path / "labels.jsonl"
    path.write_text('{"episode": "e1", "label": 1}', encoding="utf-8")
    with pytest.raises(
        JudgeError, match=r"line 1: Expected `str \| null`, got `int` - at `\$.label`"
    ):
        read_labels(path)


def test_a_file_without_labels_is_named(tmp_path: Path) -> None:
    """A missing file, and one that is not text."""
    with pytest.raises(JudgeError, match=r"none.jsonl: the labels cannot be read: .*No such file"):
        read_labels(tmp_path / "none.jsonl")
    (tmp_path / "image").write_bytes(b"\xff\xd8\xff\n")
    with pytest.raises(JudgeError, match=r"image: line 1: "):
        read_labels(tmp_path / "image")


@pytest.mark.parametrize(
    ("label", "why"),
    [
        (_label_of("e9", Label.COMPLETED), "episode: the run has no episode 'e9'"),
        (
            HumanLabel("e1", Label.COMPLETED, "d0"),
            "digest: episode 'e1' differs from the labelled one (expected digest d0, found d1)",
        ),
    ],
    ids=["unknown", "another"],
)
def test_labels_of_another_run_are_refused(tmp_path: Path, label: HumanLabel, why: str) -> None:
    """An episode that the run does not have, or has with other facts, is reported."""
    path = tmp_path / "labels.jsonl"
    book = LabelBook(path)
    book.add(_label_of("e2", Label.COMPLETED))
    book.add(label)
    with pytest.raises(JudgeError) as caught:
        labels_of(read_labels(path), DIGESTS.get)
    assert str(caught.value) == f"{path}: line 2: {why}"


def test_a_line_that_was_cut_off_harms_no_other(tmp_path: Path) -> None:
    """Wherever a crash cut the last line, even inside a character, the lines before are read, the
    cut is reported, and the next label is on a line of its own."""
    path = tmp_path / "labels.jsonl"
    kept, lost, new = (
        _label_of("e1", label) for label in (Label.COMPLETED, None, Label.AGENT_ERROR)
    )
    LabelBook(path).add(kept)
    whole = path.stat().st_size
    LabelBook(path).add(lost)
    data = path.read_bytes()
    for end in range(whole + 1, len(data) - 1):
        path.write_bytes(data[:end])
        assert read_labels(path).labels == {1: kept}
        book = LabelBook(path)
        assert book.removed == data[whole:end].decode(errors="replace")
        assert path.read_bytes() == data[:whole]
        book.add(new)
        assert path.read_bytes().splitlines()[0] + b"\n" == data[:whole]
        assert read_labels(path).labels == {2: new}


def test_a_last_line_without_a_line_feed_counts(tmp_path: Path) -> None:
    """Some editors write no line feed at the end."""
    path = tmp_path / "labels.jsonl"
    path.write_text('{"episode": "e2", "label": "completed"}', encoding="utf-8")
    book = LabelBook(path)
    assert book.removed == ""
    book.add(_label_of("e1", Label.AGENT_ERROR))
    assert read_labels(path).labels == {
        1: HumanLabel("e2", Label.COMPLETED),
        2: _label_of("e1", Label.AGENT_ERROR),
    }


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A label that cannot be written is reported, and does not count."""
    path = tmp_path / "nowhere" / "labels.jsonl"
    book = LabelBook(path)
    with pytest.raises(JudgeError, match=r"labels.jsonl: the label cannot be written: "):
        book.add(_label_of("e1", Label.COMPLETED))
