"""From what code proved and what the models judged to one label."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.core.events import Label, ModelJudgement
from rehearsal_room.harness.settings.judge import Vote
from rehearsal_room.judge.core.case import CodeVerdict
from rehearsal_room.judge.llm.voting import Mode, VoteDecision, contested, decide

DONE, PART, AGENT, WORLD = Label
ALL = frozenset(Label)
OPEN = CodeVerdict(None, ALL, "")
SUCCESS = CodeVerdict(DONE, frozenset((DONE,)), "all passed")
DAMAGE = CodeVerdict(AGENT, frozenset((AGENT,)), "guard 'x' failed")
UNDONE = CodeVerdict(PART, ALL - {DONE}, "goal 'x' failed")
CUT_OFF = CodeVerdict(None, ALL - {DONE}, "the step limit cut it off")


def judgements(*labels: Label | str) -> list[ModelJudgement]:
    """Judgements of models a, b, c …: a label, or a fault."""
    return [
        ModelJudgement(name, one, reasoning=f"{name} saw it", confidence=0.5 + 0.1 * index)
        if isinstance(one, Label)
        else ModelJudgement(name, None, fault=one)
        for index, (name, one) in enumerate(zip("abcdef", labels, strict=False))
    ]


def test_code_and_model_agree() -> None:
    """Both decided, and the reasoning is the model's."""
    assert decide(SUCCESS, judgements(DONE), vote="majority") == VoteDecision(
        DONE, None, "a saw it", "both", contested=False
    )


def test_a_model_decides_what_is_open() -> None:
    """A label that the proof leaves open is the verdict, and is marked as contested where code has
    another one."""
    assert decide(UNDONE, judgements(WORLD), vote="majority") == VoteDecision(
        WORLD, None, "a saw it", "model", contested=True
    )


def test_proof_overrules_a_model() -> None:
    """The verdict is the code's; its reasoning names the model's label and the proof."""
    assert decide(DAMAGE, judgements(DONE), vote="majority") == VoteDecision(
        AGENT,
        None,
        "a says completed; code has proved: guard 'x' failed",
        "code",
        contested=True,
    )


def test_proof_overrules_every_model() -> None:
    """However many models agree."""
    decision = decide(DAMAGE, judgements(DONE, DONE, AGENT), vote="majority")
    assert (decision.label, decision.decided_by, decision.contested) == (AGENT, "code", True)


def test_a_label_that_is_ruled_out_without_a_substitute_leaves_the_episode_unjudged() -> None:
    """Code rules the models' label out and has no label of its own."""
    assert decide(CUT_OFF, judgements(DONE), vote="majority") == VoteDecision(
        None,
        "a says completed; code has proved: the step limit cut it off",
        contested=True,
    )


def test_without_models_code_decides_what_it_proved() -> None:
    """With `ask = "unproven"` no model is asked where one label is left open; several leave the
    episode unjudged."""
    assert decide(DAMAGE, (), vote="unanimous") == VoteDecision(
        AGENT, None, "guard 'x' failed", "code"
    )
    for code in (UNDONE, OPEN):
        assert decide(code, (), vote="majority") == VoteDecision(None, "no model was asked")
    assert decide(SUCCESS, (), vote="majority", mode="llm").label is None


@pytest.mark.parametrize(
    ("labels", "majority", "unanimous"),
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
def test_votes(labels: list[Any], majority: Label | None, unanimous: Label | None) -> None:
    """More than half of the models, or all; one without a judgement counts as asked."""
    modes: tuple[Mode, ...] = ("llm", "hybrid")
    for mode in modes:
        assert decide(OPEN, judgements(*labels), vote="majority", mode=mode).label is majority
        assert decide(OPEN, judgements(*labels), vote="unanimous", mode=mode).label is unanimous


@pytest.mark.parametrize(
    ("labels", "vote", "why"),
    [
        ([DONE, AGENT], "majority", "the judges disagree: a says completed, b says agent_error"),
        (
            [DONE, AGENT, "b is down"],
            "unanimous",
            "the judges disagree: a says completed, b says agent_error, c gave no judgement",
        ),
        ([DONE, AGENT, "c is down"], "majority", "c is down"),
        ([DONE, "b is down"], "unanimous", "b is down"),
        (["a is down", "b is down"], "majority", "a is down; b is down"),
        (["a is down", "budget exhausted"], "majority", "budget exhausted; a is down"),
        (["budget exhausted", "budget exhausted"], "majority", "budget exhausted"),
        ([""], "majority", "no judgement of model 'a'"),
    ],
)
def test_a_decision_without_a_label_has_a_reason(labels: list[Any], vote: Vote, why: str) -> None:
    """A disagreement names both sides. Where a missing judgement could have decided, the reason is
    why it is missing, an exhausted budget first."""
    for code in (OPEN, UNDONE):
        decision = decide(code, judgements(*labels), vote=vote, mode="hybrid")
        assert (decision.label, decision.unjudged, decision.decided_by) == (None, why, None)


def test_models_that_disagree_leave_the_decision_to_a_proof() -> None:
    """A proof that leaves one label open decides a split vote, but not one with a vote missing."""
    split = decide(DAMAGE, judgements(DONE, AGENT), vote="majority")
    assert split == VoteDecision(
        AGENT,
        None,
        "a says completed, b says agent_error; code has proved: guard 'x' failed",
        "code",
        contested=True,
    )
    most = decide(DAMAGE, judgements(AGENT, AGENT, DONE), vote="unanimous")
    assert (most.label, most.decided_by) == (AGENT, "both")
    assert decide(DAMAGE, judgements("down"), vote="majority") == VoteDecision(None, "down")


def test_in_mode_llm_code_has_no_vote() -> None:
    """With equal judgements and proof, the model's label is the verdict."""
    assert decide(DAMAGE, judgements(DONE), vote="majority", mode="llm") == VoteDecision(
        DONE, None, "a saw it", "model", contested=False
    )


def test_the_reasoning_is_that_of_the_most_confident_model_that_agrees() -> None:
    """Models with another label are not quoted."""
    decision = decide(OPEN, judgements(DONE, DONE, AGENT), vote="majority")
    assert (decision.reasoning, decision.decided_by, decision.contested) == (
        "b saw it",
        "model",
        True,
    )


@pytest.mark.parametrize(
    ("label", "code", "labels", "expected"),
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
    label: Label | None, code: Label | None, labels: list[Any], expected: bool
) -> None:
    """A model contradicts code or another model, or the label of all models is not the verdict. A
    missing judgement contradicts nothing."""
    assert contested(label, code, judgements(*labels)) is expected


CODE_VERDICTS = st.sets(st.sampled_from(Label), min_size=1).flatmap(
    lambda allowed: st.builds(
        CodeVerdict,
        st.sampled_from([None, *allowed]),
        st.just(frozenset(allowed)),
        st.just("proof"),
    )
)
VOTES = st.lists(st.sampled_from([*Label, "down", "budget exhausted"]), max_size=5)


@given(code=CODE_VERDICTS, labels=VOTES, vote=st.sampled_from(["majority", "unanimous"]))
def test_a_hybrid_label_is_one_that_the_proof_leaves_open(
    code: CodeVerdict, labels: list[Any], vote: Vote
) -> None:
    """Whatever the models judge, no verdict contradicts a proof; there is a label or a reason; a
    label that models decided has enough votes; where code alone decides against a model, the
    verdict is marked as contested."""
    asked = judgements(*labels)
    decision = decide(code, asked, vote=vote)
    assert decision.label is None or decision.label in code.allowed
    assert (decision.label is None) == bool(decision.unjudged)
    if decision.decided_by == "model":
        assert 2 * labels.count(decision.label) > len(labels)
    if any(judgement.label is not None for judgement in asked) and decision.decided_by == "code":
        assert decision.contested


@given(truth=st.sampled_from([SUCCESS, DAMAGE]), labels=VOTES)
def test_no_lie_changes_what_is_proved(truth: CodeVerdict, labels: list[Any]) -> None:
    """Where one label is left open, models can only prevent a verdict, by giving no judgement; each
    one with another label makes it contested."""
    decision = decide(truth, judgements(*labels), vote="majority")
    assert decision.label in (None, truth.label)
    if any(isinstance(one, Label) and one is not truth.label for one in labels):
        assert decision.contested
