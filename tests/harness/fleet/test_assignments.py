"""Assignments: what is left of a plan, whichever process has it or had it."""

from rehearsal_room.harness.fleet.assignments import AssignmentBook, UnjudgedEpisode
from rehearsal_room.harness.fleet.messages import EpisodeAssignment
from rehearsal_room.harness.log.schema import EncodedRecord
from rehearsal_room.harness.rollout.plan import EpisodePlan, plan_of
from rehearsal_room.scenarios.format import read
from tests.support.paths import LIBRARY


def _plans(num: int) -> list[EpisodePlan]:
    scenario = read(LIBRARY)
    return list(plan_of([(scenario, scenario.tasks[0])], episodes=num, group_size=1, seed=0))


def _record(number: int, seq: int, kind: str, attempt: int = 1) -> EncodedRecord:
    return (f"e{number:06d}", attempt, seq, kind, 0.0, b"", None)


def test_a_plan_is_leased_in_its_order_and_only_once() -> None:
    """Each episode goes to one process, in the order of the plan."""
    plans = _plans(3)
    book = AssignmentBook(plans, plans, [], judged=True)
    assert book.take(0, 2) == [EpisodeAssignment(0, 1), EpisodeAssignment(1, 1)]
    assert book.take(1, 2) == [EpisodeAssignment(2, 1)]
    assert (book.take(0, 2), book.num_left) == ([], 3)


def test_an_ended_episode_frees_room_and_a_verdict_finishes_it() -> None:
    """Room for the next episode comes with the end; the episode is finished with its verdict."""
    plans = _plans(2)
    book = AssignmentBook(plans, plans, [], judged=True)
    book.take(0, 2)
    book.note([_record(0, 0, "started"), _record(0, 1, "step"), _record(0, 2, "ended")])
    assert (book.count_leased(0), book.num_left) == (1, 2)
    book.note([_record(0, 3, "judged")])
    assert (book.count_leased(0), book.num_left, book.num_finished) == (1, 1, 1)


def test_without_a_judge_the_end_finishes_an_episode() -> None:
    """In a run whose processes do not judge, nothing is waited for after the end."""
    plans = _plans(1)
    book = AssignmentBook(plans, plans, [], judged=False)
    book.take(0, 1)
    book.note([_record(0, 0, "started"), _record(0, 1, "ended")])
    assert (book.num_left, book.lose(0)) == (0, 0)


def test_what_a_dead_process_had_waits_again_by_how_far_it_came() -> None:
    """Not begun: the same attempt. Begun: the next one. Ended: only the verdict is missing."""
    plans = _plans(5)
    book = AssignmentBook(plans, plans, [], judged=True)
    book.take(0, 3)
    book.take(1, 1)
    book.note([_record(1, 0, "started"), _record(1, 1, "step")])
    book.note([_record(2, 0, "started"), _record(2, 1, "ended")])
    assert (book.lose(0), book.count_leased(0)) == (3, 0)
    assert book.take(1, 9) == [
        EpisodeAssignment(0, 1),
        EpisodeAssignment(1, 2),
        EpisodeAssignment(2, 1, 2),
        EpisodeAssignment(4, 1),
    ]
    book.note([_record(2, 2, "judged")])
    assert (book.num_left, book.count_leased(1)) == (4, 4)


def test_a_resumed_plan_leases_what_is_missing_and_what_is_unjudged() -> None:
    """Verdicts that are missing come first; episodes keep their attempts and their indices."""
    plans = _plans(4)
    missing = [plans[1], plans[3]]
    book = AssignmentBook(plans, missing, [UnjudgedEpisode("e000002", 2, 7)], judged=True)
    assert book.take(0, 9) == [
        EpisodeAssignment(2, 2, 7),
        EpisodeAssignment(1, 1),
        EpisodeAssignment(3, 1),
    ]
    elsewhere = AssignmentBook(plans, missing, [UnjudgedEpisode("e000002", 2, 7)], judged=False)
    assert (elsewhere.take(0, 9), elsewhere.num_left) == (
        [EpisodeAssignment(1, 1), EpisodeAssignment(3, 1)],
        2,
    )
