"""Where an answer gives another reason than the accepted one."""

import pytest

from rehearsal_room.judge.code.reasons import is_heap, num_given, other_reasons
from rehearsal_room.judge.code.stated.sentences import Things

ACCEPTED = (
    "I couldn't approve “Recall procedure”: its latest version is my own, so somebody else has to "
    "approve it. It was sent on 2 May, before the deadline."
)


def signs(answer: str, accepted: str = ACCEPTED, *, states: str = "") -> str:
    things = Things([accepted])
    found = other_reasons(accepted, answer, things, asked="", states=states, is_refusal=True)
    return "; ".join(found)


@pytest.mark.parametrize(
    ("answer", "sign"),
    [
        ("I couldn't approve it: only managers approve documents.", "another reason: role"),
        ("I couldn't approve it because the review is pending.", "does not have"),
        ("It's my own version. It would have been fine, as I wrote it.", "takes a reason back"),
        ("My own version; who wrote it doesn't matter.", "takes a reason back"),
        ("My own version. It was never sent before the deadline.", "denies"),
    ],
)
def test_another_reason_has_a_sign(answer: str, sign: str) -> None:
    """Also beside the right one, of which an answer may not take anything back."""
    assert sign in signs(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "I can't approve it because I wrote the version myself.",
        "Not approved, since a colleague has to do it.",
        "As requested, I looked at it; as the version is mine, another person has to decide.",
        "As a clerk I may not approve my own version.",
    ],
)
def test_the_same_reason_in_other_words_has_none(answer: str) -> None:
    """Words of one ground are one reason, and what was asked for is none."""
    assert signs(answer) == ""


def test_a_ground_that_a_record_states_is_of_the_case() -> None:
    """ "on hold (fraud check)" explains what the records show."""
    answer = "I couldn't approve it: my own version, and there's a fraud check."
    assert "fraud" in signs(answer)
    assert signs(answer, states='{"hold": "fraud_check"}'.replace("_", " ")) == ""


@pytest.mark.parametrize(
    ("answer", "num"),
    [
        ("It was deferred earlier, and we do that a single time.", 2),
        ("No second delay: it was given more time already.", 0),  # denied in one clause
        ("It was never deferred before, and we don't do it twice.", 0),
        ("It was deferred before.", 0),
    ],
)
def test_a_reason_is_given_with_all_of_its_grounds(answer: str, num: int) -> None:
    """As the accepted answer states them: a ground that is denied is another one."""
    accepted = "I could not defer it: it has been deferred before, and that is done once only."
    assert num_given(accepted, answer, "Please give her more time.") == num


def test_a_heap_of_words_is_no_reason() -> None:
    """The words of a rule, without those that make a sentence of them."""
    for heap in (
        "I can't do that: swap asked latest days before day shift",
        "I can't do that: bad, rating, reason, flag, hide, anything",
        "I cannot approve it. claim days excess limit authority supervisor",
    ):
        assert is_heap(heap)
    for reason in (
        "I can't do that: a swap has to be requested 4 days before the shift.",
        "Sorry, VB-5H8D3 expired on 10 June, and expired vouchers are never extended.",
        "I couldn't do it: only supervisors and managers can.",
        "Too late.",
    ):
        assert not is_heap(reason)
