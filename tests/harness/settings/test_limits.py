"""The limits of an episode."""

import pytest

from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.scenarios.format import Call, Task, Utterance


@pytest.mark.parametrize(
    ("num_calls", "num_said", "limits", "steps"),
    [
        (0, 0, Limits(), 20),
        (8, 0, Limits(), 20),
        (9, 0, Limits(), 23),
        (19, 0, Limits(), 48),
        (8, 2, Limits(), 25),
        (19, 0, Limits(max_steps=20), 20),
        (1, 0, Limits(max_steps=5), 5),
    ],
)
def test_steps_come_from_the_task_unless_they_are_set(
    num_calls: int, num_said: int, limits: Limits, steps: int
) -> None:
    """2.5 times the solution, rounded up, at least 20; a limit that was set is the limit."""
    task = Task(
        id="t",
        instruction="Do it.",
        difficulty="hard",
        kind="change",
        answer="Done.",
        oracle=(Call("look", {}),) * num_calls,
        utterances=(Utterance(0, "Which?"),) * num_said,
    )
    assert limits.steps_for(task) == steps
