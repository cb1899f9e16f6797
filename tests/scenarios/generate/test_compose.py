"""Generated worlds: valid, reproducible, and as the knobs require."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from rehearsal_room.authoring.world_host import host_in_process
from rehearsal_room.judge.gate.core.task_runner import GateSettings
from rehearsal_room.scenarios.format import read
from rehearsal_room.scenarios.generate.compose import GeneratedWorld, generate
from rehearsal_room.scenarios.generate.content.drawn_world import draw_world
from rehearsal_room.scenarios.generate.core.package import digest_of
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.plan.situation_files import situations
from rehearsal_room.scenarios.generate.plan.splits import is_offered
from rehearsal_room.scenarios.generate.plan.world_plans import plan_worlds
from rehearsal_room.scenarios.generate.tasks.features import TaskFeatures
from tests.support.budgets import repeats
from tests.support.generated_worlds import folder_of, gated, made_with
from tests.support.paths import ROOT

MODULES = ("tickets", "invoices", "payments")


def worlds(count: int = 3, seed: int = 1, **knobs: float) -> list[GeneratedWorld]:
    """Worlds of an outdoor shop with a few modules."""
    chosen = msgspec.convert(knobs, Knobs)
    return made_with(MODULES, count=count, seed=seed, trades=["outdoor_shop"], knobs=chosen)


def tasks_of(made: list[GeneratedWorld]) -> list[TaskFeatures]:
    """The measures of all tasks."""
    return [task for world in made for task in world.tasks]


@pytest.mark.slow
def test_worlds_pass_the_gate(tmp_path: Path) -> None:
    """Oracles complete their tasks, doing nothing does not, no mutant passes, no tool breaks."""
    made = made_with([], count=4, seed=11, among=None)
    settings = GateSettings(
        max_mutants=repeats(short=10, long=60), probes=repeats(short=4, long=20)
    )
    report = gated(made, tmp_path, settings)
    assert report.failures == ()
    assert (report.worlds, report.tasks) == (4, 40)
    assert report.mutants_caught >= 0.99 * report.mutants > repeats(short=100, long=300)


def test_a_world_can_be_read_as_a_package(tmp_path: Path) -> None:
    """A written world is read as the package that was made."""
    made = worlds(1)[0]
    scenario = read(folder_of(made, tmp_path))
    package = made.package
    assert scenario.name == package.name
    assert scenario.tasks == package.tasks
    assert (scenario.clock, scenario.user) == (package.clock, package.user)
    assert [task.difficulty for task in scenario.tasks] == [one.difficulty for one in made.tasks]


DIGESTS = """
from rehearsal_room.scenarios.generate.content.drawn_world import draw_world
from rehearsal_room.scenarios.generate.core.package import digest_of
from tests.support.generated_worlds import made_with
for trade in ("plant_nursery", "outdoor_shop"):
    for made in made_with(["orders"], count=2, seed=4, trades=[trade], among=None):
        print(digest_of(made.package.texts()))
"""


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes() -> None:
    """The bytes are equal in another process with other hashes, too."""
    plans = [
        plan
        for trade in ("plant_nursery", "outdoor_shop")
        for plan in plan_worlds(2, 4, trades=[trade], modules=["orders"])
    ]
    here = [digest_of(generate(plan, host_in_process).package.texts()) for plan in plans]
    for hashes in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": "."}
        other = subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert other.stdout.split() == here


def test_two_worlds_of_one_trade_differ() -> None:
    """Rows, rules, tools and tasks are drawn for each world."""
    one, other = worlds(2, seed=9)
    for name, text in one.package.texts().items():
        assert text != other.package.texts()[name], name


@pytest.mark.parametrize(("trade", "word", "plural"), [("law_office", "matter", "matters")])
def test_the_words_of_the_trade_are_everywhere(trade: str, word: str, plural: str) -> None:
    """Tables, tools and texts have the trade's word and never the canonical one."""
    for made in made_with(["cases"], count=2, seed=2, trades=[trade]):
        assert f"CREATE TABLE {plural} (" in made.package.schema_sql
        assert f"{word}_id" in made.package.tools
        for text in (made.package.tools, made.package.policy, made.package.schema_sql):
            assert not re.search(r"(?<![a-z])cases?(?![a-z])", text, re.IGNORECASE)


@pytest.mark.slow
def test_the_length_of_tasks_follows_the_knob() -> None:
    """With the knob `steps`, shorter or longer situations are drawn."""
    means = []
    for steps in (3, 6, 9):
        calls = [task.calls for task in tasks_of(worlds(6, steps=steps))]
        means.append(sum(calls) / len(calls))
    assert means == sorted(means) and means[0] + 0.5 < means[-1]


@pytest.mark.slow
def test_sizes_follow_the_knobs() -> None:
    """There are as many rows, tools and tasks as requested, within the drawn spread."""
    small = worlds(6, rows=80, tools=15, tasks=3)
    large = worlds(6, rows=400, tools=120, tasks=12)
    assert all(len(made.tasks) == 3 for made in small)
    assert all(len(made.tasks) == 12 for made in large)
    assert sorted(made.tools for made in small)[3] < 27
    assert 60 < sorted(made.rows for made in small)[3] < 120
    assert 300 < sorted(made.rows for made in large)[3] < 520


def test_tools_are_counted_as_in_the_package() -> None:
    """A surplus tool that another tool calls is part of the package and is counted."""
    for made in made_with(["suppliers", "documents"], count=6, seed=1, knobs=Knobs(tools=14)):
        assert made.tools == len(re.findall(r"^def [a-z]", made.package.tools, re.MULTILINE))


def test_a_world_has_the_tools_that_its_tasks_tempt_with() -> None:
    """A request that must be declined has a tool that would do it; the tool is in the world."""
    tempting = {one.id for one in situations().values() if one.kind == "decline" and one.modules}
    made = worlds(4, forbidden=1, memory=0, tools=10, tasks=3)
    assert any(task.situation in tempting for task in tasks_of(made))
    for world in made:
        names = set(re.findall(r"^def ([a-z]\w*)", world.package.tools, re.MULTILINE))
        assert {call.name for task in world.package.tasks for call in task.oracle} <= names


def test_memory_tasks_need_a_value_seen_long_before() -> None:
    """With the knob at one, most tasks write a value last seen more than `window` turns ago."""
    tasks = tasks_of(worlds(6, memory=1, forbidden=0, tasks=2))
    remembered = [task for task in tasks if situations()[task.situation].memory]
    assert len(remembered) > 5
    far = [task for task in remembered if task.distance > 3]
    assert len(far) >= 0.7 * len(remembered)


def test_the_requested_share_of_tasks_is_forbidden() -> None:
    """No whole task is forbidden with the knob at zero, and most are with the knob at one."""
    kinds = Counter(task.kind for task in tasks_of(worlds(3, forbidden=0)))
    most = Counter(task.kind for task in tasks_of(worlds(3, forbidden=1, memory=0, tasks=4)))
    assert kinds["decline"] == 0
    assert most["decline"] >= 0.8 * most.total()


@pytest.mark.slow
def test_roles_forbid_more_on_request() -> None:
    """`permissions` draws requests that a role forbids instead of those that a rule forbids."""
    shares = []
    for share in (0, 1):
        made = tasks_of(worlds(6, seed=3, forbidden=1, memory=0, permissions=share, tasks=2))
        shares.append(sum(situations()[task.situation].because == "permission" for task in made))
    assert shares[0] < shares[1]


@pytest.mark.slow
def test_terse_tasks_are_short() -> None:
    """With the knob at one, every task is in a colleague's words, and shorter than usual."""
    plain, terse = tasks_of(worlds(3)), worlds(3, terse=1)
    assert {task.voice for task in tasks_of(terse)} == {"colleague"}
    assert {task.voice for task in plain} == {"email", "colleague", "chat", "note"}


@pytest.mark.parametrize("number", [0, 3])
def test_the_requested_noise_is_made(number: int) -> None:
    """The first table of each module has as many noise columns as the knob says."""
    [plan] = plan_worlds(1, 1, Knobs(noise=number), trades=["outdoor_shop"], modules=MODULES)
    noise = draw_world(plan).noise
    assert set(map(len, noise.values())) <= {number}
    assert len(noise) == len(plan.modules)


def test_held_out_situations_fill_worlds() -> None:
    """Worlds of the split by situation have as many tasks as others, all from held-out ones."""
    for plan in plan_worlds(2, 3, split="situations"):
        made = generate(plan, host_in_process)
        assert len(made.tasks) == plan.knobs.tasks
        assert all(is_offered(task.situation, "situations") for task in made.tasks)
