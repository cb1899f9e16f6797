"""Labelling episodes at a terminal."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from harness.core.events import Judged, Label, StepTaken
from harness.core.messages import Reply
from harness.core.trajectory import Trajectory, assemble
from judge.core.errors import JudgeError
from judge.core.evidence import ScenarioInfo, episode_digest
from judge.reliability.annotate import Labelled, Labelling, order_of
from judge.reliability.annotations import HumanLabel, LabelBook, read_labels
from scenarios.checks import Finding
from tests.support.episode_logs import answer, ended, started, step, story

FINDING = Finding("order 7 is void", True, "void", "void", "goal")
VERDICT = Judged("code", Label.AGENT_ERROR, 0.0, findings=(FINDING,))
C, P, A, E = Label


def _trajectory(episode: str) -> Trajectory:
    events = [started(), step(0), answer(), ended(2), VERDICT]
    return assemble(story(episode, events))


class Sitting:
    """A labeller who types what a list says, and what the terminal shows."""

    def __init__(self, path: Path, *, labeller: str = "ann") -> None:
        self.path = path
        self.labeller = labeller
        self.prompts: list[str] = []
        self.shown: list[str] = []  # before each prompt

    def run(self, typed: Sequence[str], episodes: Sequence[str] = ("e1", "e2", "e3")) -> Labelled:
        book = LabelBook(self.path)
        console = Console(file=io.StringIO(), width=80)
        keys = iter(typed)
        labelling = Labelling(
            order_of(episodes, book.by(self.labeller), seed=0),
            book,
            labeller=self.labeller,
            trajectory_of=_trajectory,
            scenario_info=lambda trajectory: ScenarioInfo(
                "# Rules\n\nBe [red]kind[/red].", "Ada", "2026"
            ),
            read=lambda prompt: self._type(prompt, console, keys),
            console=console,
            now=lambda: 5.0,
        )
        result = labelling.run()
        self._take(console)
        return result

    def _type(self, prompt: str, console: Console, keys: Iterator[str]) -> str:
        self.prompts.append(prompt)
        self._take(console)
        try:
            return next(keys)
        except StopIteration:
            raise EOFError from None

    def _take(self, console: Console) -> None:
        assert isinstance(console.file, io.StringIO)
        self.shown.append(console.file.getvalue())
        console.file = io.StringIO()

    def labels(self) -> dict[str, HumanLabel]:
        return read_labels(self.path).by(self.labeller)


@pytest.fixture
def sitting(tmp_path: Path) -> Sitting:
    """A labeller with an empty file."""
    return Sitting(tmp_path / "labels.jsonl")


ORDER = order_of(["e1", "e2", "e3"], (), seed=0)


def test_the_order_is_the_seeds() -> None:
    """Episodes come in an order that only the seed decides, without those that are done."""
    names = [f"e{n}" for n in range(20)]
    assert order_of(names, (), seed=1) == order_of(names[::-1], (), seed=1)
    assert order_of(names, (), seed=1) != order_of(names, (), seed=2)
    assert sorted(order_of(names, {"e3", "e4"}, seed=1)) == sorted({*names} - {"e3", "e4"})


def test_labels_are_written_one_by_one(sitting: Sitting) -> None:
    """Each key gives its label, with the digest of what was seen and who saw it."""
    assert sitting.run(["c", " P ", "a"]) == Labelled(3, 0)
    assert sitting.labels() == {
        episode: HumanLabel(episode, label, episode_digest(_trajectory(episode)), "ann", at=5.0)
        for episode, label in zip(ORDER, (C, P, A), strict=True)
    }
    assert "That was the last one." in sitting.shown[-1]


def test_what_is_shown_is_blind(sitting: Sitting) -> None:
    """Task, rules, turns, answer and changed rows are shown; no verdict, no finding, and not who
    played."""
    sitting.run([])
    (text, *_) = sitting.shown
    for expected in (
        "1 of 3",
        "Please void order 7.",
        "Be [red]kind[/red].",
        "user Ada, clock 2026",
        "→ void_order(order_id=7, step=0)",
        "ended: answered",
        "Done: order 7 is void.",
        "the world, end against start",
        '"void"',
    ):
        assert expected in text
    for hidden in ("agent_error", "reward", "oracle", "finding", "✓"):
        assert hidden not in text


def test_findings_are_shown_on_demand(sitting: Sitting) -> None:
    """The label says that its labeller looked, and only that one."""
    sitting.run(["f", "e", "e"])
    assert "goal: order 7 is void" in sitting.shown[1]
    assert "agent_error" not in "".join(sitting.shown[:2])
    labels = sitting.labels()
    assert [labels[episode].saw_findings for episode in ORDER[:2]] == [True, False]


def test_verdicts_are_shown_after_the_label(sitting: Sitting) -> None:
    """Before anything is labelled there are none to see; then those of the last episode."""
    sitting.run(["v", "c", "v"])
    assert sitting.shown[1].strip() == "Nothing has been labelled yet."
    assert sitting.shown[3].split() == [f"{ORDER[0]}:", "code:", "agent_error"]


def test_a_sitting_goes_on_where_it_was_left(sitting: Sitting) -> None:
    """Quitting, skipping and the end of input leave what was labelled; the rest comes again, for
    each labeller."""
    assert sitting.run(["c", "s", "q"]) == Labelled(1, 2)
    assert list(sitting.labels()) == ORDER[:1]
    assert sitting.run(["a"]) == Labelled(1, 1)
    assert list(sitting.labels()) == ORDER[:2]
    assert sitting.run(["a"]) == Labelled(1, 0)
    assert sitting.run([]) == Labelled(0, 0)
    other = Sitting(sitting.path, labeller="bob")
    assert other.run(["e", "e", "e"]) == Labelled(3, 0)
    assert len(read_labels(sitting.path).labels) == 6


def test_the_last_label_can_be_taken_back(sitting: Sitting) -> None:
    """Undo shows the episode again; even when nothing follows, the label is gone."""
    assert sitting.run(["u", "c", "u"]) == Labelled(0, 3)
    assert sitting.labels() == {}
    assert "Nothing has been labelled yet." in sitting.shown[1]
    assert sitting.run(["c", "s", "u", "a", "c"]) == Labelled(2, 1)
    assert {name: label.label for name, label in sitting.labels().items()} == {
        ORDER[0]: A,
        ORDER[1]: C,
    }


def test_a_note_goes_with_its_label(sitting: Sitting) -> None:
    """A note belongs to the episode that is shown, and not to the next one."""
    sitting.run(["n", " The refund is missing. ", "a", "c"])
    labels = sitting.labels()
    assert [labels[episode].note for episode in ORDER[:2]] == ["The refund is missing.", ""]
    assert sitting.prompts[1] == "note: "


def test_other_keys_explain_themselves(sitting: Sitting) -> None:
    """A key without a meaning, as no key, changes nothing and shows what there is."""
    assert sitting.run(["x", "", "?", "completed"]) == Labelled(0, 3)
    for text in sitting.shown[1:5]:
        assert "u  undo" in text
    assert not sitting.path.exists()


def test_texts_are_shown_whole_and_as_text(sitting: Sitting) -> None:
    """What was shortened can be seen to its end; control characters and markup are not obeyed."""
    long = "[bold]\x1b[2J" + "z" * 900 + " the end\u202e"
    turns = [StepTaken(Reply(long), step(0).decision, step(0).results)]
    trajectory = assemble(story("e1", [started(), *turns, answer(), ended(2)]))
    console = Console(file=io.StringIO(), width=80)
    keys = iter(["w", "r", "f"])

    def read(prompt: str) -> str:
        key = next(keys, None)
        if key is None:
            raise EOFError
        return key

    Labelling(
        ["e1"],
        LabelBook(sitting.path),
        labeller="ann",
        trajectory_of=lambda _: trajectory,
        scenario_info=lambda _: ScenarioInfo("", "", ""),
        read=read,
        console=console,
    ).run()
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "the end\\u202e" in text
    assert text.count("z") > 900 + 2 * 500
    assert text.count("1 of 1") == 2
    assert "this episode has no verdict with findings" in text
    assert not any(ord(char) < 32 for char in text.replace("\n", ""))


def test_a_file_that_was_cut_off_is_told(sitting: Sitting) -> None:
    """A line that a crash cut off is removed, with a word about it."""
    sitting.run(["c", "q"])
    with sitting.path.open("ab") as file:
        file.write(b'{"episode": "e')
    sitting.run(["q"])
    assert "last line was cut off" in " ".join(sitting.shown[-2].split())
    assert list(sitting.labels()) == ORDER[:1]


def test_a_label_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A file that cannot be written stops the sitting with a sentence; nothing pretends to be
    labelled."""
    sitting = Sitting(tmp_path / "nowhere" / "labels.jsonl")
    with pytest.raises(JudgeError, match="the label cannot be written"):
        sitting.run(["c"])


def test_a_label_is_a_line_of_json(sitting: Sitting) -> None:
    """The file is what it is said to be."""
    sitting.run(["c"])
    (line,) = sitting.path.read_text(encoding="utf-8").splitlines()
    assert msgspec.json.decode(line) == {
        "episode": ORDER[0],
        "label": "completed",
        "digest": episode_digest(_trajectory(ORDER[0])),
        "labeller": "ann",
        "note": "",
        "saw_findings": False,
        "at": 5.0,
    }
