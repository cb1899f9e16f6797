"""From what the code proved and what models say to one label."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.events import Label, ModelJudgement
from harness.settings.judge import Vote
from judge.core.case import Ruling
from judge.llm.voting import Decision, Mode, contested, decide

DONE, PART, AGENT, WORLD = Label
ALL = frozenset(Label)
OPEN = Ruling(None, ALL, "")
SUCCESS = Ruling(DONE, frozenset((DONE,)), "all passed")
DAMAGE = Ruling(AGENT, frozenset((AGENT,)), "guard 'x' failed")
UNDONE = Ruling(PART, ALL - {DONE}, "goal 'x' failed")
CUT_OFF = Ruling(None, ALL - {DONE}, "the step limit cut it off")


def opinions(*said: Label | str) -> list[ModelJudgement]:
    """Opinions of models a, b, c …: a label, or a fault."""
    return [
        ModelJudgement(name, one, reasoning=f"{name} saw it", confidence=0.5 + 0.1 * index)
        if isinstance(one, Label)
        else ModelJudgement(name, None, fault=one)
        for index, (name, one) in enumerate(zip("abcdef", said, strict=False))
    ]


def test_code_and_model_agree() -> None:
    """Both stand behind the label, the reasoning is the model's."""
    assert decide(SUCCESS, opinions(DONE), vote="majority") == Decision(
        DONE, None, "a saw it", "both", contested=False
    )


def test_a_model_decides_what_is_open() -> None:
    """A label that the proof leaves is the verdict, and the code's other one is on record as
    contested."""
    assert decide(UNDONE, opinions(WORLD), vote="majority") == Decision(
        WORLD, None, "a saw it", "model", contested=True
    )


def test_proof_overrules_a_model() -> None:
    """The verdict is the code's, and says who said what, and why it does not count."""
    assert decide(DAMAGE, opinions(DONE), vote="majority") == Decision(
        AGENT,
        None,
        "a says completed; what the code proved stands: guard 'x' failed",
        "code",
        contested=True,
    )


def test_proof_overrules_every_model() -> None:
    """However many say the same."""
    decision = decide(DAMAGE, opinions(DONE, DONE, AGENT), vote="majority")
    assert (decision.label, decision.decided_by, decision.contested) == (AGENT, "code", True)


def test_what_is_ruled_out_without_a_label_of_the_codes_is_left_unjudged() -> None:
    """Where the code has no label to put in its place, there is none."""
    assert decide(CUT_OFF, opinions(DONE), vote="majority") == Decision(
        None,
        "a says completed; what the code proved stands: the step limit cut it off",
        contested=True,
    )


def test_without_a_model_the_code_decides_what_it_proved() -> None:
    """`ask = "unproven"` asks nobody where one label is left; more than one decides nothing."""
    assert decide(DAMAGE, (), vote="unanimous") == Decision(AGENT, None, "guard 'x' failed", "code")
    for ruling in (UNDONE, OPEN):
        assert decide(ruling, (), vote="majority") == Decision(None, "no model was asked")
    assert decide(SUCCESS, (), vote="majority", mode="llm").label is None


@pytest.mark.parametrize(
    ("said", "majority", "unanimous"),
    [
        ([DONE, DONE], DONE, DONE),
        ([DONE, DONE, AGENT], DONE, None),
        ([DONE, AGENT], None, None),
        ([DONE, PART, AGENT], None, None),
        ([DONE, DONE, "down"], DONE, None),
        ([DONE, "down"], None, None),
        (["down"], None, None),
        ([DONE, DONE, AGENT, AGENT], None, None),
        ([DONE, DONE, DONE, AGENT, "down"], DONE, None),
    ],
)
def test_votes(said: list[Any], majority: Label | None, unanimous: Label | None) -> None:
    """More than half of those asked, or all of them; who gave no opinion was asked."""
    modes: tuple[Mode, ...] = ("llm", "hybrid")
    for mode in modes:
        assert decide(OPEN, opinions(*said), vote="majority", mode=mode).label is majority
        assert decide(OPEN, opinions(*said), vote="unanimous", mode=mode).label is unanimous


@pytest.mark.parametrize(
    ("said", "vote", "why"),
    [
        ([DONE, AGENT], "majority", "the judges disagree: a says completed, b says agent_error"),
        (
            [DONE, AGENT, "b is down"],
            "unanimous",
            "the judges disagree: a says completed, b says agent_error, c gave no opinion",
        ),
        ([DONE, AGENT, "c is down"], "majority", "c is down"),
        ([DONE, "b is down"], "unanimous", "b is down"),
        (["a is down", "b is down"], "majority", "a is down; b is down"),
        (["a is down", "budget: 5.00 USD"], "majority", "budget: 5.00 USD; a is down"),
        (["budget: 5.00 USD", "budget: 5.00 USD"], "majority", "budget: 5.00 USD"),
        ([""], "majority", "no opinion of model 'a'"),
    ],
)
def test_no_label_says_why(said: list[Any], vote: Vote, why: str) -> None:
    """A disagreement tells both sides. Where an opinion that is missing could have decided, it is
    why it is missing, a spent budget first."""
    for ruling in (OPEN, UNDONE):
        decision = decide(ruling, opinions(*said), vote=vote, mode="hybrid")
        assert (decision.label, decision.unjudged, decision.decided_by) == (None, why, None)


def test_models_that_cannot_agree_leave_what_is_proved() -> None:
    """A proof that leaves one label decides a split vote; a vote that may still be had waits."""
    split = decide(DAMAGE, opinions(DONE, AGENT), vote="majority")
    assert split == Decision(
        AGENT,
        None,
        "a says completed, b says agent_error; what the code proved stands: guard 'x' failed",
        "code",
        contested=True,
    )
    most = decide(DAMAGE, opinions(AGENT, AGENT, DONE), vote="unanimous")
    assert (most.label, most.decided_by) == (AGENT, "both")
    assert decide(DAMAGE, opinions("down"), vote="majority") == Decision(None, "down")


def test_in_llm_mode_the_code_has_no_say() -> None:
    """The same opinions, the same proof: the model's word is the verdict."""
    assert decide(DAMAGE, opinions(DONE), vote="majority", mode="llm") == Decision(
        DONE, None, "a saw it", "model", contested=False
    )


def test_the_most_confident_of_those_who_agree_is_quoted() -> None:
    """Not one who said something else."""
    decision = decide(OPEN, opinions(DONE, DONE, AGENT), vote="majority")
    assert (decision.reasoning, decision.decided_by, decision.contested) == (
        "b saw it",
        "model",
        True,
    )


@pytest.mark.parametrize(
    ("label", "code", "said", "expected"),
    [
        (DONE, DONE, [DONE], False),
        (AGENT, AGENT, [DONE], True),
        (DONE, AGENT, [DONE], True),
        (DONE, None, [DONE], False),
        (DONE, None, [DONE, DONE, AGENT], True),
        (None, None, [DONE], True),
        (None, None, ["down"], False),
        (None, AGENT, ["down"], False),
        (None, DONE, [DONE, "down"], False),
        (None, AGENT, [DONE, "down"], True),
        (AGENT, AGENT, [], False),
    ],
)
def test_contested(
    label: Label | None, code: Label | None, said: list[Any], expected: bool
) -> None:
    """A model contradicts the code or another model, or all say one thing and it did not count.
    Silence contradicts nobody."""
    assert contested(label, code, opinions(*said)) is expected


rulings = st.sets(st.sampled_from(Label), min_size=1).flatmap(
    lambda allowed: st.builds(
        Ruling, st.sampled_from([None, *allowed]), st.just(frozenset(allowed)), st.just("proof")
    )
)
voices = st.lists(st.sampled_from([*Label, "down", "budget: spent"]), max_size=5)


@given(ruling=rulings, said=voices, vote=st.sampled_from(["majority", "unanimous"]))
def test_a_hybrid_label_is_one_that_the_proof_leaves(
    ruling: Ruling, said: list[Any], vote: Vote
) -> None:
    """Whatever models say, no verdict contradicts a proof; there is a label or a reason; a label
    that models stand behind has enough votes, and the code alone decides against one only where
    that is on record as contested."""
    asked = opinions(*said)
    decision = decide(ruling, asked, vote=vote)
    assert decision.label is None or decision.label in ruling.allowed
    assert (decision.label is None) == bool(decision.unjudged)
    if decision.decided_by == "model":
        assert 2 * said.count(decision.label) > len(said)
    if any(opinion.label is not None for opinion in asked) and decision.decided_by == "code":
        assert decision.contested


@given(truth=st.sampled_from([SUCCESS, DAMAGE]), said=voices)
def test_no_lie_changes_what_is_proved(truth: Ruling, said: list[Any]) -> None:
    """Where one label is left, models can hold the verdict up by their silence, and nothing more;
    each one that says something else makes it contested."""
    decision = decide(truth, opinions(*said), vote="majority")
    assert decision.label in (None, truth.label)
    if any(isinstance(one, Label) and one is not truth.label for one in said):
        assert decision.contested
