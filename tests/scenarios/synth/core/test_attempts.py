"""Asking until an answer is valid."""

from collections.abc import Sequence

import pytest

from rehearsal_room.scenarios.synth.core.attempts import (
    AttemptSummary,
    CheckedAnswer,
    StageOutcome,
    ask_until_valid,
    summarize_faults,
)
from rehearsal_room.scenarios.synth.core.protocols import ModelAnswer, PromptMessage, RequestPurpose


def test_similar_faults_are_listed_once() -> None:
    """Faults that differ only in numbers are counted; of very many only the first are listed."""
    assert summarize_faults(["row 1 is bad", "no table", "row 22 is bad"]) == (
        "row 1 is bad (and 1 like it)",
        "no table",
    )
    many = [f"fault {'x' * n}" for n in range(1, 16)]
    assert summarize_faults(many) == (*many[:12], "and 3 more")


class Scripted:
    """An author with scripted answers, and a stage: each x in an answer is a fault."""

    purpose = RequestPurpose("tasks", "w")

    def __init__(self, *answers: str, tolerable: int = 0) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, ...]] = []
        self.tolerable = tolerable

    async def answer(
        self, messages: Sequence[PromptMessage], purpose: RequestPurpose, *, seed: int
    ) -> ModelAnswer:
        self.asked.append(tuple(message.text for message in messages))
        text = self.answers[len(self.asked) - 1]
        return ModelAnswer("", "the answer is empty") if not text else ModelAnswer(text)

    async def embed(self, texts: Sequence[str], purpose: RequestPurpose) -> list[list[float]]:
        raise AssertionError("no stage here asks for vectors")

    def prompt(self) -> tuple[PromptMessage, ...]:
        return (PromptMessage("user", "question"),)

    def correction(self, problems: str) -> tuple[PromptMessage, ...]:
        return (PromptMessage("user", problems),)

    async def check(self, text: str) -> CheckedAnswer[str]:
        faults = tuple(f"fault of {text}" for _ in range(text.count("x")))
        return CheckedAnswer(text, faults, tolerable=0 < len(faults) <= self.tolerable)


@pytest.mark.anyio
async def test_an_author_sees_its_last_answer_and_the_faults() -> None:
    """Asking ends with the first valid answer."""
    author = Scripted("axx", "bx", "c", "d")
    outcome = await ask_until_valid(author, author)
    assert outcome == StageOutcome(
        "c",
        True,
        (
            AttemptSummary(("fault of axx (and 1 like it)",), 2),
            AttemptSummary(("fault of bx",), 1),
            AttemptSummary(),
        ),
        answer="c",
    )
    assert author.asked == [
        ("question",),
        ("question", "axx", "- fault of axx (and 1 like it)"),
        ("question", "bx", "- fault of bx"),
    ]


@pytest.mark.anyio
async def test_the_best_of_invalid_answers_is_returned() -> None:
    """It is the one with the fewest faults; an empty answer does not count."""
    author = Scripted("axxx", "bx", "", "cxx", "dxx")
    outcome = await ask_until_valid(author, author)
    assert (outcome.value, outcome.ok, outcome.answer) == ("bx", False, "bx")
    assert [attempt.num_faults for attempt in outcome.attempts] == [3, 1, 1, 2, 2]
    assert author.asked[3] == ("question", "- the answer is empty")


@pytest.mark.anyio
async def test_tolerable_faults_become_notes_after_the_last_answer() -> None:
    """A worse answer in between does not replace the tolerable one."""
    author = Scripted("ax", "bxx", "cx", "dx", "ex", "f", tolerable=1)
    outcome = await ask_until_valid(author, author)
    assert (outcome.value, outcome.ok, outcome.notes) == ("ex", True, ("fault of ex",))
    assert len(outcome.attempts) == 5


@pytest.mark.anyio
async def test_an_author_who_insists_is_not_asked_again() -> None:
    """An equal answer with tolerable faults is accepted; one with other faults goes back."""
    author = Scripted("axx", "axx", "ax", "ax", "e", tolerable=1)
    outcome = await ask_until_valid(author, author)
    assert (outcome.value, outcome.ok, outcome.notes) == ("ax", True, ("fault of ax",))
    assert len(outcome.attempts) == 4
