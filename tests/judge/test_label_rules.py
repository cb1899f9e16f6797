"""The table of label rules: the code judge follows it on every mutant and near miss of a bundled
world, and the prompt has it."""

from collections import Counter

import pytest

from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.core.mistakes import FailureKind
from rehearsal_room.judge.core.label_rules import LABEL_RULES, label_rule_text
from rehearsal_room.judge.llm.rubric import read_rubric
from tests.judge.failures.staged import diagnosed
from tests.support.budgets import repeats

LABELS = {border.kind: border.label for border in LABEL_RULES}
EVERY = repeats(short=12, long=1)  # of a world's tasks
# A sum that falls short of the demanded one is work that is not done; and a wrong decision that the
# next right one replaces does not stand.
_EXCEPTIONS = {"shop_support": 0, "flight_desk": 8, "claims_desk": 5}


@pytest.mark.slow
@pytest.mark.parametrize("world", ["shop_support", "flight_desk", "claims_desk"])
def test_every_mutant_and_near_miss_has_the_label_of_its_kind(world: str) -> None:
    """Where all mistakes of an episode have the same label in the table, the code judge gives it;
    where that is `partially_completed` and nothing was reached, `agent_error`."""
    others: Counter[str] = Counter()
    num_checked = 0
    for staged in diagnosed(world, every=EVERY):
        kinds = {mistake.kind for mistake in staged.mistakes} & LABELS.keys()
        if staged.one.kind not in ("mutant", "near_miss") or not kinds:
            continue
        labels = {LABELS[kind] for kind in kinds - {FailureKind.CONTRADICTING_ANSWER}}
        if len(labels) != 1 or (kinds & {FailureKind.MISSING_WRITE} and len(kinds) > 1):
            continue
        num_checked += 1
        expected = labels.pop()
        if staged.label is not expected and staged.label is not Label.AGENT_ERROR:
            others[f"{staged.task}: {staged.one.why}"] += 1
    assert num_checked > 300 / EVERY
    assert others.total() <= _EXCEPTIONS[world], others


def test_every_kind_that_an_agent_can_cause_is_there() -> None:
    """Habits, endings and failures of world or model have no border."""
    assert len(LABELS) == len(LABEL_RULES)
    assert set(FailureKind) - LABELS.keys() == {
        *(
            FailureKind.WRITE_WITHOUT_LOOKUP,
            FailureKind.TOOL_OVERUSE,
            FailureKind.CUT_OFF,
            FailureKind.FORMAT_ERROR,
        ),
        *(
            FailureKind.WORLD_FAILURE,
            FailureKind.MODEL_FAILURE,
            FailureKind.AGENT_FAILURE,
            FailureKind.MODEL_REFUSAL,
            FailureKind.UNJUDGED,
            FailureKind.GOAL_NOT_MET,
        ),
    }


def test_the_prompt_has_the_table() -> None:
    """In both modes, and it counts in the rubric's version."""
    rubric = read_rubric()
    for text in (rubric.instructions("llm"), rubric.instructions("hybrid")):
        assert label_rule_text() in text
        assert "{borders}" not in text
