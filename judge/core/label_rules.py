"""The rules between labels: what a kind of mistake makes of an episode.

One table, which the code judge follows and from which the prompt of a judging model is made. What
counts is what stands at the end: a wrong write that was put right is none.
"""

import msgspec

from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.core.mistakes import FailureKind


class LabelRule(msgspec.Struct, frozen=True):
    """What one kind of mistake makes of an episode that is not completed."""

    kind: FailureKind
    label: Label  # where it is `partially_completed` and nothing was reached: `agent_error`
    rule: str
    example: str


_ERROR, _PARTLY = Label.AGENT_ERROR, Label.PARTIALLY_COMPLETED
LABEL_RULES = (
    LabelRule(
        FailureKind.WRONG_RECORD,
        _ERROR,
        "the right change stands in a record that it was not asked for",
        "the address of order 4103 was changed; the task names 4101",
    ),
    LabelRule(
        FailureKind.WRONG_VALUE,
        _ERROR,
        "the right record stands with a wrong amount, object, reason or purpose",
        "a refund of 40.50 where 12.15 is due, or for the reason 'lost_parcel'",
    ),
    LabelRule(
        FailureKind.UNASKED_CHANGE,
        _ERROR,
        "a row stands that the task did not ask for, also beside everything that it asked for",
        "the ticket was marked solved as well",
    ),
    LabelRule(
        FailureKind.DUPLICATE_WRITE,
        _ERROR,
        "a right write stands twice: a payment, a refund, a note, a record",
        "the same note was written twice",
    ),
    LabelRule(
        FailureKind.MISSING_WRITE,
        _PARTLY,
        "a write that was asked for was not made, and what stands is right. An attempt that the "
        "world refused leaves nothing behind",
        "one of two refunds was made",
    ),
    LabelRule(
        FailureKind.WRONG_REFUSAL,
        _PARTLY,
        "the agent refused what it should have done, and did the rest. A refusal that its own "
        "wrong call brought about is not the world's",
        "one of two orders was cancelled, the other wrongly refused",
    ),
    LabelRule(
        FailureKind.WRONG_ANSWER,
        _PARTLY,
        "the rows are right, and the answer lacks a figure that was asked for or has another one. "
        "A right figure counts as reached, also in an answer that is otherwise false",
        "the refund was made, but the answer gives a wrong amount",
    ),
    LabelRule(
        FailureKind.CONTRADICTING_ANSWER,
        _PARTLY,
        "the answer denies, misstates or takes back what the rows have, or claims what they do not "
        "have. Such an episode is not completed, however right its rows are",
        "the claim was paid, and the answer says that it was declined, or that cash was paid too",
    ),
    LabelRule(
        FailureKind.CALL_AS_TEXT,
        _PARTLY,
        "a call stands as text in the answer. It was not made, and its change is undone",
        'the answer is {"name": "cancel_order", "arguments": {"order_id": 4105}}',
    ),
    LabelRule(
        FailureKind.MISSING_REFUSAL,
        _ERROR,
        "the agent should have refused and did not, even if nothing was changed",
        "it answers 'done' to a request that the policy forbids",
    ),
)


def label_rule_text() -> str:
    """The table as a list in Markdown, for the prompt."""
    lines = [
        f"- {one.rule[:1].upper()}{one.rule[1:]}: `{one.label}`. Example: {one.example}."
        for one in LABEL_RULES
    ]
    return "\n".join([*lines, _WORDING])


_WORDING = (
    "- The wording of a note or a message counts only where the task or the policy states what "
    "must be in it."
)
