"""Labelling episodes at a terminal."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from rehearsal_room.harness.core.events import Judged, Label, StepTaken
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.core.trajectory import Trajectory, assemble
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.core.evidence import ScenarioInfo, episode_digest
from rehearsal_room.judge.reliability.annotate import (
    LabellingSession,
    SessionResult,
    shuffled_episodes,
)
from rehearsal_room.judge.reliability.annotations import HumanLabel, LabelBook, read_labels
from rehearsal_room.scenarios.checks import Finding
from tests.support.episode_logs import answer, ended, started, step, story

FINDING = Finding("order 7 is void", True, "void", "void", "goal")
VERDICT = Judged("code", Label.AGENT_ERROR, 0.0, findings=(FINDING,))
C, P, A, E = Label


def _trajectory(episode: str) -> Trajectory:
    events = [started(), step(0), answer(), ended(2), VERDICT]
    return assemble(story(episode, events))


class Session:
    """A labeller who types the entries of a list, and what the terminal shows."""

    def __init__(self, path: Path, *, labeller: str = "ann") -> None:
        self.path = path
        self.labeller = labeller
        self.prompts: list[str] = []
        self.shown: list[str] = []  # before each prompt

    def run(
        self, typed: Sequence[str], episodes: Sequence[str] = ("e1", "e2", "e3")
    ) -> SessionResult:
        book = LabelBook(self.path)
        console = Console(file=io.StringIO(), width=80)
        keys = iter(typed)
        labelling = LabellingSession(
            shuffled_episodes(episodes, book.by(self.labeller), seed=0),
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
def session(tmp_path: Path) -> Session:
    """A labeller with an empty file."""
    return Session(tmp_path / "labels.jsonl")


ORDER = shuffled_episodes(["e1", "e2", "e3"], (), seed=0)


def test_the_seed_decides_the_order() -> None:
    """The order depends only on the seed, and episodes with a label are left out."""
    names = [f"e{n}" for n in range(20)]
    assert shuffled_episodes(names, (), seed=1) == shuffled_episodes(names[::-1], (), seed=1)
    assert shuffled_episodes(names, (), seed=1) != shuffled_episodes(names, (), seed=2)
    assert sorted(shuffled_episodes(names, {"e3", "e4"}, seed=1)) == sorted({*names} - {"e3", "e4"})


def test_labels_are_written_one_by_one(session: Session) -> None:
    """Each key gives its label, with the episode's digest and the labeller."""
    assert session.run(["c", " P ", "a"]) == SessionResult(3, 0)
    assert session.labels() == {
        episode: HumanLabel(episode, label, episode_digest(_trajectory(episode)), "ann", at=5.0)
        for episode, label in zip(ORDER, (C, P, A), strict=True)
    }
    assert "That was the last one." in session.shown[-1]


def test_labelling_is_blind(session: Session) -> None:
    """Task, rules, turns, answer and changed rows are shown, but no verdict, no finding and not the
    agent's name."""
    session.run([])
    (text, *_) = session.shown
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


def test_findings_are_shown_on_demand(session: Session) -> None:
    """Only the label of that episode records that its labeller saw them."""
    session.run(["f", "e", "e"])
    assert "goal: order 7 is void" in session.shown[1]
    assert "agent_error" not in "".join(session.shown[:2])
    labels = session.labels()
    assert [labels[episode].saw_findings for episode in ORDER[:2]] == [True, False]


def test_verdicts_are_shown_after_the_label(session: Session) -> None:
    """Before the first label there are none to show; then those of the last episode."""
    session.run(["v", "c", "v"])
    assert session.shown[1].strip() == "Nothing has been labelled yet."
    assert session.shown[3].split() == [f"{ORDER[0]}:", "code:", "agent_error"]


def test_a_session_continues_the_last_one(session: Session) -> None:
    """Labels stay after quitting, skipping and the end of input; the other episodes come in the
    next session, for each labeller."""
    assert session.run(["c", "s", "q"]) == SessionResult(1, 2)
    assert list(session.labels()) == ORDER[:1]
    assert session.run(["a"]) == SessionResult(1, 1)
    assert list(session.labels()) == ORDER[:2]
    assert session.run(["a"]) == SessionResult(1, 0)
    assert session.run([]) == SessionResult(0, 0)
    other = Session(session.path, labeller="bob")
    assert other.run(["e", "e", "e"]) == SessionResult(3, 0)
    assert len(read_labels(session.path).labels) == 6


def test_the_last_label_can_be_withdrawn(session: Session) -> None:
    """Undo shows the episode again; the label is removed even when nothing follows."""
    assert session.run(["u", "c", "u"]) == SessionResult(0, 3)
    assert session.labels() == {}
    assert "Nothing has been labelled yet." in session.shown[1]
    assert session.run(["c", "s", "u", "a", "c"]) == SessionResult(2, 1)
    assert {name: label.label for name, label in session.labels().items()} == {
        ORDER[0]: A,
        ORDER[1]: C,
    }


def test_a_note_goes_with_its_label(session: Session) -> None:
    """A note belongs to the episode that is shown, not to the next one."""
    session.run(["n", " The refund is missing. ", "a", "c"])
    labels = session.labels()
    assert [labels[episode].note for episode in ORDER[:2]] == ["The refund is missing.", ""]
    assert session.prompts[1] == "note: "


def test_other_keys_show_the_help(session: Session) -> None:
    """A key without a meaning, or an empty line, changes nothing and shows the keys."""
    assert session.run(["x", "", "?", "completed"]) == SessionResult(0, 3)
    for text in session.shown[1:5]:
        assert "u  undo" in text
    assert not session.path.exists()


def test_texts_are_shown_completely_and_as_plain_text(session: Session) -> None:
    """A shortened text can be shown to its end; control characters and markup have no effect."""
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

    LabellingSession(
        ["e1"],
        LabelBook(session.path),
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
    assert "This episode has no verdict with findings" in text
    assert not any(ord(char) < 32 for char in text.replace("\n", ""))


def test_a_file_that_was_cut_off_is_reported(session: Session) -> None:
    """A line that a crash cut off is removed, which is reported."""
    session.run(["c", "q"])
    with session.path.open("ab") as file:
        file.write(b'{"episode": "e')
    session.run(["q"])
    assert "last line was cut off" in " ".join(session.shown[-2].split())
    assert list(session.labels()) == ORDER[:1]


def test_a_label_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    """A file that cannot be written stops the session with a sentence; no episode counts as
    labelled."""
    session = Session(tmp_path / "nowhere" / "labels.jsonl")
    with pytest.raises(JudgeError, match="the label cannot be written"):
        session.run(["c"])


def test_a_label_is_a_line_of_json(session: Session) -> None:
    """The file has the documented format."""
    session.run(["c"])
    (line,) = session.path.read_text(encoding="utf-8").splitlines()
    assert msgspec.json.decode(line) == {
        "episode": ORDER[0],
        "label": "completed",
        "digest": episode_digest(_trajectory(ORDER[0])),
        "labeller": "ann",
        "note": "",
        "saw_findings": False,
        "at": 5.0,
    }
