"""The demonstrators: they know what the agent knows, and guesses are luck."""

import math
from collections import Counter
from random import Random

import pytest

from rehearsal_room.demo.demonstrators import (
    GAVE_UP,
    attempt,
    choices_entropy,
    next_office,
    offices_in,
)
from rehearsal_room.demo.recipe import DemonstratorSettings
from rehearsal_room.scenarios.format import Call, Task, read
from rehearsal_room.scenarios.microworlds.offices import OfficeShape, write_offices

FOUR = OfficeShape(offices=(4,))
GUESS = DemonstratorSettings()
SEARCH = DemonstratorSettings(look_up=0.0, finds=4, in_order=0.3, again=0.5)
# After a miss: the same office, the next one, and each of the two others.
AFTER = (0.5 + 0.2 / 4, 0.3 + 0.2 / 4, 0.2 / 4, 0.2 / 4)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> list[Task]:
    """Four thousand tasks in worlds of four offices."""
    folder = tmp_path_factory.mktemp("worlds")
    worlds = write_offices(folder, FOUR, name="w", seed=1, count=40, split="train", each=100)
    return [task for world in worlds for task in read(world).tasks]


def attempts(tasks: list[Task], settings: DemonstratorSettings) -> list[tuple[Call, ...]]:
    return [attempt(task, settings, Random(n))[0] for n, task in enumerate(tasks)]


def test_a_guess_is_right_once_in_four(tasks: list[Task]) -> None:
    """4 % look up, and a quarter of the others are lucky: nobody knows more than the list."""
    found = attempts(tasks, GUESS)
    looked = sum(calls[0].name.startswith("where_") for calls in found)
    lucky = sum(len(calls) == 2 for calls in found)
    assert looked / len(tasks) == pytest.approx(0.04, abs=0.01)
    assert lucky / (len(tasks) - looked) == pytest.approx(0.25, abs=0.02)
    for calls, task in zip(found, tasks, strict=True):
        assert calls == task.oracle[-len(calls) :] or len(calls) == 1


def test_whoever_does_not_find_the_record_says_so(tasks: list[Task]) -> None:
    """An attempt that gives up is not one that the judge finds completed: it changes nothing."""
    for number, task in enumerate(tasks[:200]):
        calls, answer = attempt(task, GUESS, Random(number))
        assert (answer == GAVE_UP) == (not calls[-1].name.startswith("set_"))


def test_the_choice_needs_only_what_the_window_shows() -> None:
    """The offices of the task's text and the office of the last call; each draw is even, the next
    on the list, or the same again."""
    offices = offices_in("Give client vera the price 47. Offices: oslo, rome, lima, bern.")
    assert offices == ("oslo", "rome", "lima", "bern")
    assert offices_in("Give client vera the price 47. Offices: oslo/rome/oslo.") == offices[:2]
    rng = Random(0)
    first = Counter(next_office(offices, None, SEARCH, rng) for _ in range(4000))
    after = Counter(next_office(offices, "bern", SEARCH, rng) for _ in range(4000))
    assert all(first[one] / 4000 == pytest.approx(0.25, abs=0.03) for one in offices)
    for office, share in zip(("bern", "oslo", "rome", "lima"), AFTER, strict=True):
        assert after[office] / 4000 == pytest.approx(share, abs=0.03)


def test_shares_of_more_than_one_are_refused() -> None:
    """They would not leave what they say."""
    with pytest.raises(ValueError, match="in_order and again"):
        DemonstratorSettings(in_order=0.6, again=0.5)


def test_the_floor_of_a_clones_loss_is_the_entropy_of_the_choices(tasks: list[Task]) -> None:
    """Of the attempts that guess right or look up, p look up: H(p) + (1 - p) ln 4."""
    kept = [
        (task.instruction, calls)
        for task, calls in zip(tasks, attempts(tasks, GUESS), strict=True)
        if calls[-1].name.startswith("set_")
    ]
    share = sum(len(calls) == 3 for _, calls in kept) / len(kept)
    heads = -share * math.log(share) - (1 - share) * math.log(1 - share)
    assert choices_entropy(kept) == pytest.approx(heads + (1 - share) * math.log(4))


def test_the_floor_counts_searches_after_a_miss(tasks: list[Task]) -> None:
    """All attempts of searchers: the first office is even, and each later one has the entropy of
    what they do after a miss."""
    found = attempts(tasks, SEARCH)
    later = -sum(one * math.log(one) for one in AFTER)
    searches = sum(call.name.startswith("find_") for calls in found for call in calls)
    expected = math.log(4) + (searches / len(found) - 1) * later
    texts = [task.instruction for task in tasks]
    assert choices_entropy(zip(texts, found, strict=True)) == pytest.approx(expected, abs=0.02)
