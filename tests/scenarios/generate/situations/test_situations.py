"""The authored situations: four voices, one purpose, a sound oracle, and sentences of their own."""

from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from random import Random

import pytest

from rehearsal_room.authoring.task_texts import begins_with_joiner, masked, sentences_of
from rehearsal_room.authoring.world_host import host_in_process
from rehearsal_room.scenarios.core.dialogue import UserAutomaton
from rehearsal_room.scenarios.format import read
from rehearsal_room.scenarios.generate import compose
from rehearsal_room.scenarios.generate.compose import GeneratedWorld, generate
from rehearsal_room.scenarios.generate.content.drawn_world import DrawnWorld, draw_world
from rehearsal_room.scenarios.generate.core.errors import ModuleError
from rehearsal_room.scenarios.generate.core.situations import Situation
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.plan.situation_files import situations
from rehearsal_room.scenarios.generate.plan.world_plans import WorldPlan, plan_worlds
from rehearsal_room.scenarios.generate.tasks.dressed_drafts import instruction_of
from tests.support.budgets import IS_LONG
from tests.support.generated_worlds import QUICK, gated
from tests.support.try_situations import plans_of

IDS = tuple(name for name, one in situations().items() if not one.dialogue)
TALKS = tuple(name for name, one in situations().items() if one.dialogue)
SAMPLE = IDS if IS_LONG else tuple(sorted(Random("sample").sample(IDS, 24)))
_MIN_WORDS = 5


@cache
def plan_of(name: str) -> WorldPlan:
    """The plan of the first world that suits a situation."""
    one = situations()[name]
    for count in (6, 60):  # some need an acting employee of a certain role
        for plan in plans_of(one, count, []):
            if draw_world(plan).staged:
                return plan
    raise AssertionError(f"no world suits {name}")


def texts_of(world: DrawnWorld) -> dict[str, str]:
    """The texts of the first situation of a world, by voice."""
    draft = world.staged[0].draft
    found = {}
    for voice in draft.ask.__struct_fields__:
        text = getattr(draft.ask, voice)
        first = text if isinstance(text, str) else text[0]
        found[voice] = instruction_of(world, draft, first)
    return found


@cache
def made(name: str) -> GeneratedWorld:
    """A world with this situation."""
    return generate(plan_of(name), host_in_process)


def test_there_are_enough_situations() -> None:
    """At least 400, most of them across two or three modules, of every kind."""
    every = list(situations().values())
    kinds = Counter(one.kind for one in every)
    assert len(every) >= 400
    assert sum(_reach(one) > 1 for one in every) > len(every) / 2
    assert min(kinds["change"], kinds["question"], kinds["decline"]) >= 60
    assert sum(one.memory for one in every) >= 20


def _reach(one: Situation) -> int:
    """The number of modules on which a situation stands; the base counts as one."""
    return len({*one.modules, "base"})


@pytest.mark.parametrize("name", [*SAMPLE, *TALKS])
def test_a_situation_gives_a_sound_task(name: str) -> None:
    """Its oracle is played without a fault in the first world that suits it, it is of the declared
    kind, has two purposes at most, and about as many calls as it declares."""
    world, one = made(name), situations()[name]
    assert world.dropped == {}
    for task in world.tasks:
        assert (task.situation, task.kind) == (name, one.kind)
        assert task.purposes <= 2
        assert abs(task.calls - one.steps) <= max(3, one.steps // 2), task.calls


@pytest.mark.parametrize("name", SAMPLE)
def test_four_people_say_it_in_their_own_words(name: str) -> None:
    """Each voice has text of its own, names nothing by a placeholder, and joins no requests."""
    texts = texts_of(draw_world(plan_of(name)))
    assert len(set(texts.values())) == 4
    for voice, text in texts.items():
        assert 5 <= len(text.split()) <= 130, (voice, text)
        assert not set("{}[]") & set(text), text
        assert sum(map(begins_with_joiner, sentences_of(text))) <= 1, text


@pytest.mark.parametrize("name", TALKS)
def test_a_talk_is_sound(name: str, tmp_path: Path) -> None:
    """A world with a dialogue passes the gate: nothing is disclosed early, and the agent must
    ask, or hold out."""
    world = made(name)
    report = gated([world], tmp_path, QUICK)
    assert report.failures == ()
    tasks = read(tmp_path / world.package.name).tasks
    assert tasks == world.package.tasks
    assert all(isinstance(task.user, UserAutomaton) for task in tasks)


def test_worlds_without_the_knob_have_no_dialogue() -> None:
    """The default draws none; 0.5 draws about half, and a world has each situation once before one
    is used again."""
    (plan,) = plan_worlds(1, 3, Knobs(tasks=12, dialogue=0.5))
    tasks = generate(plan, host_in_process).tasks
    talks = [task.situation for task in tasks if task.situation in TALKS]
    assert 2 <= len(talks) <= 10
    (plain,) = plan_worlds(1, 3, Knobs(tasks=12))
    assert not {task.situation for task in generate(plain, host_in_process).tasks} & set(TALKS)


def test_a_world_that_is_drawn_again_in_vain_stays_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a second draw gives no task at all, the task of the first one counts."""
    name = "crossing_goods.bought_in_for_one_order"  # a world has one such task
    draw = compose._generate
    monkeypatch.setattr(
        compose,
        "_generate",
        lambda plan, host, spare, attempt: None if spare else draw(plan, host, spare, attempt),
    )
    assert [task.situation for task in generate(plan_of(name), host_in_process).tasks] == [name]


def test_no_sentence_is_shared() -> None:
    """A sentence of five words or more, with names and values masked, stands in one situation."""
    users: dict[str, set[str]] = defaultdict(set)
    for name in SAMPLE:
        for text in texts_of(draw_world(plan_of(name))).values():
            for sentence in sentences_of(text):
                if len(sentence.split()) >= _MIN_WORDS:
                    users[masked(sentence)].add(name)
    assert {text: names for text, names in users.items() if len(names) > 1} == {}


def test_a_mark_that_is_no_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the situation and the mark."""
    name = SAMPLE[0]
    plan = plan_of(name)
    monkeypatch.setattr(DrawnWorld, "tool_dressers", property(lambda self: {}))
    with pytest.raises(ModuleError, match=f"situation {name}: '.*' is unknown"):
        generate(plan, host_in_process)
