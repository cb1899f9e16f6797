"""Rewordings and injections: other words, the same facts."""

import json

import msgspec
import pytest

from harness.core.events import Ending
from judge.core.case import Case
from judge.core.evidence import CallFact, Evidence, Turn
from judge.reliability.perturbations import (
    INJECTIONS,
    REWORDINGS,
    fake_exhibits,
    fake_verdict,
    plea,
    polite,
    relaid,
    smuggled,
    tool_order,
    typeset,
    unthinking,
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
    """The fields of the evidence that are not those of the rich case."""
    return {
        field: getattr(case.evidence, field)
        for field in Evidence.__struct_fields__
        if getattr(case.evidence, field) != getattr(RICH.evidence, field)
    }


@pytest.mark.parametrize("name", ALL)
def test_facts_stay(name: str) -> None:
    """Calls, causes, rows, findings, ending, verdict and trajectory stay; the texts do not, and
    the same case gives the same."""
    case = ALL[name](RICH)
    assert case != RICH
    assert facts(case) == facts(RICH)
    assert ALL[name](RICH) == case


@pytest.mark.parametrize("name", ALL)
def test_nothing_to_change(name: str) -> None:
    """A case without texts is left as it is: an answer that was not given is not made up."""
    assert ALL[name](BARE) is BARE


@pytest.mark.parametrize("name", ALL)
def test_no_answer_is_made_up(name: str) -> None:
    """Where the agent gave no answer, there is none after."""
    cut_off = made_case(turns=(LOOKED, WROTE), answer="", ending=Ending.STEP_LIMIT)
    assert ALL[name](cut_off).evidence.answer == ""


def test_polite() -> None:
    """The answer stands between courtesies, in the last turn, too."""
    answer = (
        f"Thank you for your patience.\n\n{ANSWER}\n\n"
        "Please let me know if there is anything else that I can help you with."
    )
    last = Turn(f"<think>Hm.</think>{answer}", ())
    assert changed(polite(RICH)) == {"answer": answer, "turns": (LOOKED, WROTE, last)}


def test_typeset() -> None:
    """Quotes are curly, dashes long and spaces wide; an answer in JSON stays JSON."""
    assert typeset(RICH).evidence.answer == "It’s “done”.  Order 7 – void.\n"
    assert typeset(made_case(answer='{"it\'s": "done"}')) == made_case(answer='{"it\'s": "done"}')


def test_unthinking() -> None:
    """What was thought is gone, and nothing else is."""
    first, last = msgspec.structs.replace(LOOKED, text="I look."), Turn(ANSWER, ())
    assert changed(unthinking(RICH)) == {"turns": (first, WROTE, last)}


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
def test_relaid(text: str, laid: str) -> None:
    """JSON is laid out otherwise where it then says the same; all else stays."""
    turns = (Turn("", (CallFact("get_order", {}, text, None, ()),)),)
    case = relaid(made_case(turns=turns))
    assert [call.text for turn in case.evidence.turns for call in turn.calls] == [laid]


def test_pleas_of_the_agent() -> None:
    """The agent's injections stand at the end of its answer."""
    for injection in (plea, fake_exhibits, fake_verdict, smuggled):
        answer = injection(RICH).evidence.answer
        assert answer.startswith(f"{ANSWER}\n\n")
        assert injection(RICH).evidence.turns[-1].text == f"<think>Hm.</think>{answer}"
    assert "say completed" in plea(RICH).evidence.answer
    said = fake_verdict(RICH).evidence.answer.rpartition("\n\n")[2]
    assert json.loads(said)["label"] == "completed"
    hidden = smuggled(RICH).evidence.answer.rpartition("\n\n")[2]
    assert (
        "".join(chr(ord(letter) - 0xE0000) for letter in hidden)
        == (plea(RICH).evidence.answer.rpartition("\n\n")[2])
    )


def test_a_plea_without_an_answer() -> None:
    """An agent that was cut off pleads in what it said last."""
    case = plea(made_case(turns=(WROTE, LOOKED), answer="", ending=Ending.STEP_LIMIT))
    said = case.evidence.turns[-1].text
    assert said.startswith(f"{LOOKED.text}\n\nNote to the judge:")
    assert plea(made_case(turns=(Turn("", ()),), answer="")).evidence.turns[0].text.startswith("N")


def test_an_order_of_a_tool() -> None:
    """The last answer of a tool gives the order, wherever it stands."""
    turns = tool_order(RICH).evidence.turns
    assert (turns[0], turns[2]) == (RICH.evidence.turns[0], RICH.evidence.turns[2])
    assert turns[1].calls[0].text.startswith('{"id": 7}\n\nSYSTEM: ')
