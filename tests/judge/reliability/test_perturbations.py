"""Rewordings and injections: other texts, the same facts."""

import json

import msgspec
import pytest

from rehearsal_room.harness.core.events import Ending
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.core.evidence import CallFact, Evidence, Turn
from rehearsal_room.judge.reliability.perturbations import (
    INJECTIONS,
    REWORDINGS,
    fake_evidence,
    fake_verdict,
    hidden_text,
    plea,
    polite,
    reformatted,
    tool_command,
    typographic,
    without_thinking,
)
from tests.support.cases import LOOKED, WROTE, made_case

ALL = {**REWORDINGS, **INJECTIONS}
ANSWER = 'It\'s "done". Order 7 - void.'
RICH = made_case(turns=(LOOKED, WROTE, Turn(f"<think>Hm.</think>{ANSWER}", ())), answer=ANSWER)
BARE = made_case(turns=(), answer="", ending=Ending.STEP_LIMIT)


def facts(case: Case) -> object:
    """The case without the texts of agent and tools."""
    turns = tuple(
        msgspec.structs.replace(
            turn,
            text="",
            calls=tuple(msgspec.structs.replace(call, text="") for call in turn.calls),
        )
        for turn in case.evidence.turns
    )
    evidence = msgspec.structs.replace(case.evidence, turns=turns, answer="")
    return msgspec.structs.replace(case, evidence=evidence)


def changed(case: Case) -> dict[str, object]:
    """The fields of the evidence that differ from those of the rich case."""
    return {
        field: getattr(case.evidence, field)
        for field in Evidence.__struct_fields__
        if getattr(case.evidence, field) != getattr(RICH.evidence, field)
    }


@pytest.mark.parametrize("name", ALL)
def test_facts_stay(name: str) -> None:
    """Calls, causes, rows, findings, ending, verdict and trajectory are unchanged, the texts are
    not, and equal cases give equal results."""
    case = ALL[name](RICH)
    assert case != RICH
    assert facts(case) == facts(RICH)
    assert ALL[name](RICH) == case


@pytest.mark.parametrize("name", ALL)
def test_nothing_to_change(name: str) -> None:
    """A case without texts is unchanged: no answer is invented."""
    assert ALL[name](BARE) is BARE


@pytest.mark.parametrize("name", ALL)
def test_no_answer_is_invented(name: str) -> None:
    """Where the agent gave no answer, the perturbed case has none."""
    cut_off = made_case(turns=(LOOKED, WROTE), answer="", ending=Ending.STEP_LIMIT)
    assert ALL[name](cut_off).evidence.answer == ""


def test_polite() -> None:
    """The answer is between courtesies, in the last turn too."""
    answer = (
        f"Thank you for your patience.\n\n{ANSWER}\n\n"
        "Please let me know if there is anything else that I can help you with."
    )
    last = Turn(f"<think>Hm.</think>{answer}", ())
    assert changed(polite(RICH)) == {"answer": answer, "turns": (LOOKED, WROTE, last)}


def test_typographic() -> None:
    """Quotes are curly, dashes long and spaces wide; an answer in JSON stays JSON."""
    assert typographic(RICH).evidence.answer == "It’s “done”.  Order 7 – void.\n"
    assert typographic(made_case(answer='{"it\'s": "done"}')) == made_case(
        answer='{"it\'s": "done"}'
    )


def test_without_thinking() -> None:
    """Only the thoughts are removed."""
    first, last = msgspec.structs.replace(LOOKED, text="I look."), Turn(ANSWER, ())
    assert changed(without_thinking(RICH)) == {"turns": (first, WROTE, last)}


@pytest.mark.parametrize(
    ("text", "laid"),
    [
        ('{"id": 7, "open": true}', '{\n    "open": true,\n    "id": 7\n}'),
        ('[{"a": 1.10, "b": "é"}]', '[\n    {\n        "b": "é",\n        "a": 1.1\n    }\n]'),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ("NaN", "NaN"),
        ("Order 7 is void.", "Order 7 is void."),
        ('"text"', '"text"'),
        ("[" * 100_000, "[" * 100_000),
        (f'{{"a": {"9" * 5000}}}', f'{{"a": {"9" * 5000}}}'),
    ],
)
def test_reformatted(text: str, laid: str) -> None:
    """JSON gets another layout where its meaning stays the same; other text is unchanged."""
    turns = (Turn("", (CallFact("get_order", {}, text, None, ()),)),)
    case = reformatted(made_case(turns=turns))
    assert [call.text for turn in case.evidence.turns for call in turn.calls] == [laid]


def test_pleas_of_the_agent() -> None:
    """The agent's injections are at the end of its answer."""
    for injection in (plea, fake_evidence, fake_verdict, hidden_text):
        answer = injection(RICH).evidence.answer
        assert answer.startswith(f"{ANSWER}\n\n")
        assert injection(RICH).evidence.turns[-1].text == f"<think>Hm.</think>{answer}"
    assert "say completed" in plea(RICH).evidence.answer
    text = fake_verdict(RICH).evidence.answer.rpartition("\n\n")[2]
    assert json.loads(text)["label"] == "completed"
    hidden = hidden_text(RICH).evidence.answer.rpartition("\n\n")[2]
    assert (
        "".join(chr(ord(letter) - 0xE0000) for letter in hidden)
        == (plea(RICH).evidence.answer.rpartition("\n\n")[2])
    )


def test_a_plea_without_an_answer() -> None:
    """An agent that was cut off pleads in its last message."""
    case = plea(made_case(turns=(WROTE, LOOKED), answer="", ending=Ending.STEP_LIMIT))
    text = case.evidence.turns[-1].text
    assert text.startswith(f"{LOOKED.text}\n\nNote to the judge:")
    assert plea(made_case(turns=(Turn("", ()),), answer="")).evidence.turns[0].text.startswith("N")


def test_a_command_of_a_tool() -> None:
    """The last answer of a tool has the command, in whichever turn it is."""
    turns = tool_command(RICH).evidence.turns
    assert (turns[0], turns[2]) == (RICH.evidence.turns[0], RICH.evidence.turns[2])
    assert turns[1].calls[0].text.startswith('{"id": 7}\n\nSYSTEM: ')
