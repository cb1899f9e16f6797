"""What an episode says about its agent: one rule, in Python and in SQL."""

import sqlite3
from contextlib import closing
from itertools import product

import pytest

from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.outcomes.scores import (
    SCORE_SQL,
    Tally,
    score_of,
    tally,
    tally_of_labels,
)
from tests.harness.reports.test_summary import REFUSED, rows


@pytest.mark.parametrize(
    ("ending", "label", "score"),
    [
        (Ending.ANSWERED, Label.COMPLETED, 1.0),
        (Ending.ANSWERED, Label.PARTIALLY_COMPLETED, 0.0),
        (Ending.STEP_LIMIT, Label.AGENT_ERROR, 0.0),
        (Ending.ANSWERED, Label.ENVIRONMENT_ERROR, None),
        (Ending.WORLD_ERROR, Label.AGENT_ERROR, 0.0),  # it did harm before the world broke
        (Ending.POLICY_ERROR, None, None),
        (Ending.CANCELLED, None, None),
        (Ending.ANSWERED, None, None),
        (Ending.AGENT_FAILED, Label.AGENT_ERROR, 0.0),
        (Ending.AGENT_FAILED, None, 0.0),  # nobody judged it, and it has failed
        (Ending.AGENT_FAILED, Label.COMPLETED, 0.0),  # whatever a judge says
        (Ending.AGENT_FAILED, Label.ENVIRONMENT_ERROR, None),
    ],
)
def test_the_rule(ending: Ending, label: Label | None, score: float | None) -> None:
    """An outage and a broken world say nothing; an own program that raises has failed."""
    assert score_of(ending, label) == score


def test_the_rule_in_sql_is_the_same() -> None:
    """SQLite gives each ending and label the score that Python gives."""
    with closing(sqlite3.connect(":memory:")) as database:
        for ending, label in product(Ending, (*Label, None)):
            sql = f"SELECT {SCORE_SQL} FROM (SELECT ? AS ending, ? AS label)"
            ((found,),) = database.execute(sql, (str(ending), label and str(label)))
            assert found == score_of(ending, label), (ending, label)


def test_episodes_without_a_verdict_count_once_as_failed_and_once_as_completed() -> None:
    """The rate is that of the others; its bounds hold whatever they had been."""
    counted = tally(rows(3, 1, [REFUSED] * 4, unjudged=2))
    assert counted == Tally(episodes=10, scored=4, completed=3)
    assert (counted.rate, counted.without, counted.bounds) == (0.75, 6, (0.3, 0.9))
    assert tally_of_labels({"completed": 3, "agent_error": 1, "environment_error": 6}, 10) == (
        counted
    )
    assert (tally([]).rate, tally([]).bounds) == (None, (0.0, 1.0))
