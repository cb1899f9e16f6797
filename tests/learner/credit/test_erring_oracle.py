"""The erring oracle: its errors have their chances, and it goes by its latest note alone."""

from collections import Counter

import anyio
import pytest

from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.core.messages import Briefing, Message, Reply, Window
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.policies.base import Assignment
from rehearsal_room.harness.rollout.episode import run_episode
from rehearsal_room.learner.credit.erring_oracle import (
    ErringOracle,
    Errors,
    done_so_far,
    note_of,
)
from tests.support.run_context import MemorySink, library, make_run_context, plans, watchdog_running

TASK = library().task("lend-two")


def reply(seed: int, done: frozenset[int] | None, errors: Errors) -> Reply:
    """What an agent does whose latest note is this one (None: there is none)."""
    assignment = Assignment(
        episode="e0",
        scenario=library(),
        task=TASK,
        seed=seed,
        briefing=Briefing("", "", (), "", ""),
    )
    agent = ErringOracle(Native(), errors).agent(assignment)
    messages = () if done is None else (Message("assistant", note_of(done)),)
    return anyio.run(agent.reply, Window(messages))


def test_the_note_is_all_that_it_goes_by() -> None:
    """It reads the latest one; without one nothing is done."""
    old, new = (Message("assistant", note_of(frozenset(one))) for one in ({0}, {0, 2}))
    assert done_so_far((old, new, Message("tool", "Done so far: 9."))) == {0, 2}
    assert done_so_far((Message("user", note_of(frozenset({1}))),)) == frozenset()


def test_without_errors_it_is_the_oracle() -> None:
    """Call after call, and then the answer."""
    none = Errors(0, 0, 0, 0)
    done: frozenset[int] = frozenset()
    for call in TASK.oracle:
        made = reply(1, done, none)
        assert (made.calls[0].name, made.calls[0].arguments) == (call.name, call.arguments)
        done = done_so_far((Message("assistant", made.text),))
    assert reply(1, done, none).text == TASK.answer


def test_errors_have_their_chances() -> None:
    """In the state before the two writes; a call that was left out is made later."""
    errors = Errors(changed=0.2, repeated=0.15, left_out=0.1, answered=0.05)
    done = frozenset({0, 1, 2, 3})
    found: Counter[str] = Counter()
    for seed in range(2_000):
        made = reply(seed, done, errors)
        if not made.calls:
            found["answered"] += 1
            continue
        call, after = made.calls[0], done_so_far((Message("assistant", made.text),))
        kinds = {(): "repeated", (4,): "next", (5,): "left_out"}
        kind = kinds[tuple(sorted(after - done))]
        is_right = any(
            (call.name, call.arguments) == (one.name, one.arguments) for one in TASK.oracle
        )
        found[kind if is_right else "changed"] += 1
    shares = {kind: count / 2_000 for kind, count in found.items()}
    assert shares == pytest.approx(
        {"next": 0.5, "changed": 0.2, "repeated": 0.15, "left_out": 0.1, "answered": 0.05},
        abs=0.04,
    )
    assert reply(7, frozenset({0, 1, 3}), Errors(0, 0, 0, 0)).calls[0].name == TASK.oracle[2].name


@pytest.mark.parametrize("errors", [{"changed": -0.1}, {"changed": 0.7, "answered": 0.4}])
def test_chances_are_checked(errors: dict[str, float]) -> None:
    """None is negative, and they are not more than 1 together."""
    with pytest.raises(ValueError, match="chances must be from 0 to 1 in sum"):
        Errors(**errors)


@pytest.mark.anyio
async def test_it_plays_whole_episodes() -> None:
    """In a real world, where some of its errors are repaired."""
    sink = MemorySink()
    context = make_run_context(ErringOracle(Native(), Errors(left_out=0.4)), sink)
    async with watchdog_running(context):
        for plan in plans(20, group_size=20, task="lend-two"):
            await run_episode(plan, context)
    ended = sink.endings()
    assert Ending.ANSWERED in ended.values() and len(ended) == 20
