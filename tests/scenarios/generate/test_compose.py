"""Generated worlds: valid, reproducible, and as the knobs require."""

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from judge.gate.task_runner import GateSettings
from judge.worlds.world_host import host_in_process
from scenarios.format import read
from scenarios.generate.compose import GeneratedWorld, generate
from scenarios.generate.core.package import digest_of
from scenarios.generate.plan.business_modules import module
from scenarios.generate.plan.knobs import Knobs
from scenarios.generate.plan.world_plans import plan_worlds
from tests.support.generated_worlds import drafts_of, drafts_used, folder_of, gated, made_with
from tests.support.paths import ROOT

REFERENCE = ("staff", "parties", "catalogue", "orders")


def worlds(count: int = 3, seed: int = 1, **knobs: float) -> list[GeneratedWorld]:
    """Worlds with the reference modules."""
    return made_with(["orders"], count=count, seed=seed, knobs=msgspec.convert(knobs, Knobs))


def test_worlds_pass_the_gate(tmp_path: Path) -> None:
    """Oracles complete their tasks, doing nothing does not, no mutant passes, no tool breaks."""
    report = gated(worlds(4, seed=11), tmp_path, GateSettings(max_mutants=60, probes=20))
    assert report.failures == ()
    assert (report.worlds, report.tasks) == (4, 40)
    assert report.mutants_caught >= 0.99 * report.mutants > 500


def test_a_world_can_be_read_as_a_package(tmp_path: Path) -> None:
    """A written world is read as the package that was made."""
    made = worlds(1)[0]
    scenario = read(folder_of(made, tmp_path))
    package = made.package
    assert scenario.name == package.name
    assert scenario.tasks == package.tasks
    assert (scenario.clock, scenario.user) == (package.clock, package.user)
    assert [task.difficulty for task in scenario.tasks] == [one.difficulty for one in made.tasks]


def test_every_draft_of_the_reference_modules_is_used() -> None:
    """Over some seeds each draft function gives a part of a valid task."""
    made = [*worlds(30, seed=5, tools=60), *worlds(10, seed=6, forbidden=0.9, tools=60)]
    drafts = set().union(*map(drafts_of, REFERENCE))
    assert drafts - set(drafts_used(made)) == set()


DIGESTS = """
from scenarios.generate.core.package import digest_of
from tests.support.generated_worlds import made_with
for trade in ("plant_nursery", "outdoor_shop"):
    for made in made_with(["orders"], count=2, seed=4, trades=[trade]):
        print(digest_of(made.package.texts()))
"""


def test_the_same_seed_gives_the_same_bytes() -> None:
    """The bytes are equal in another process with other hashes, too."""
    plans = [
        plan
        for trade in ("plant_nursery", "outdoor_shop")
        for plan in plan_worlds(2, 4, trades=[trade], modules=["orders"], among=[])
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
    """Words, names, rows and rules are drawn for each world."""
    one, other = made_with(["orders"], count=2, seed=9, trades=["outdoor_shop"])
    for name, text in one.package.texts().items():
        assert text != other.package.texts()[name], name


def test_the_words_of_the_trade_are_everywhere() -> None:
    """No table that the trade renames has its canonical name left in the tools."""
    for made in made_with(["orders"], count=6, seed=2):
        tables = {
            line.split()[2] for line in made.package.schema_sql.split("\n") if "TABLE" in line
        }
        canonical = {name for name in REFERENCE for name in module(name).tables}
        renamed = canonical - tables
        assert renamed, "no table was renamed"
        for table in renamed - {"addresses"}:
            assert f" {table} " not in made.package.tools


@pytest.mark.parametrize("steps", [3, 12])
def test_tasks_have_the_requested_length(steps: int) -> None:
    """The knob `steps` is about the median number of calls."""
    calls = sorted(task.calls for made in worlds(8, steps=steps) for task in made.tasks)
    assert 0.6 * steps <= calls[len(calls) // 2] <= 1.3 * steps + 1


def test_sizes_follow_the_knobs() -> None:
    """There are as many rows, tools and tasks as requested, within the drawn spread."""
    small = worlds(6, rows=80, tools=15, tasks=4)
    large = worlds(6, rows=400, tools=60, tasks=20)
    assert all(len(made.tasks) == 4 for made in small)
    assert all(len(made.tasks) == 20 for made in large)
    assert sorted(made.tools for made in small)[3] < 22
    assert {made.tools for made in large} == {sum(len(module(name).tools) for name in REFERENCE)}
    assert 50 < sorted(made.rows for made in small)[3] < 110
    assert 300 < sorted(made.rows for made in large)[3] < 520


def test_tools_are_counted_as_in_the_package() -> None:
    """A surplus tool that another tool calls is part of the package and is counted."""
    for made in made_with(["suppliers", "documents"], count=6, seed=1, knobs=Knobs(tools=14)):
        assert made.tools == len(re.findall(r"^def [a-z]", made.package.tools, re.MULTILINE))


def test_memory_tasks_need_a_value_seen_long_before() -> None:
    """With the knob at one, tasks write a value that was last seen more than `window` turns ago."""
    tasks = [
        task for made in worlds(6, memory=1, forbidden=0, window=4, tasks=3) for task in made.tasks
    ]
    remembered = [task for task in tasks if "parties.same_phone" in task.drafts]
    assert len(remembered) > 3
    assert min(task.distance for task in remembered) > 4


def test_a_memory_task_is_answered_in_the_order_of_its_requests() -> None:
    """The answer to the last request comes last."""
    texts = [
        (one.answer, one.instruction)
        for made in worlds(3, seed=2, memory=1)
        for one in made.package.tasks
        if "that phone number" in one.instruction and one.kind == "change"
    ]
    assert texts
    for answer, instruction in texts:
        assert answer.rindex("The phone number") == answer.rindex(". ") + 2, instruction


def test_the_requested_share_of_tasks_is_forbidden() -> None:
    """No task is forbidden with the knob at zero, and most are with the knob at one."""
    none = [task.forbidden for made in worlds(3, forbidden=0) for task in made.tasks]
    most = [
        task.forbidden for made in worlds(3, forbidden=1, memory=0, tasks=4) for task in made.tasks
    ]
    assert set(none) == {False}
    assert sum(most) >= 0.8 * len(most)


def test_roles_forbid_more_on_request() -> None:
    """`permissions` draws requests that a role forbids instead of those that a rule forbids."""
    by_role = {"staff.colleague_to_move", "parties.blocking", "catalogue.category_lead"}
    counts = []
    for share in (0, 1):
        made = worlds(8, seed=3, forbidden=1, memory=0, permissions=share, tasks=3)
        forbidden = [task for one in made for task in one.tasks if task.forbidden]
        counts.append(sum(bool(by_role & set(task.drafts)) for task in forbidden))
    assert counts[0] < counts[1]


def test_ambiguity_requires_look_ups() -> None:
    """Without it instructions name records by their ids where they can; with it the agent must
    search for them."""
    shares = []
    for ambiguity in (0, 1):
        made = worlds(4, ambiguity=ambiguity)
        calls = [call.name for one in made for task in one.package.tasks for call in task.oracle]
        shares.append(sum(name.startswith(("search_", "find_")) for name in calls) / len(calls))
    assert shares[0] < 0.75 * shares[1]


def test_the_requested_lookalikes_and_noise_are_made() -> None:
    """More records resemble each other with the knob at one; noise columns are counted by table."""
    plain, crowded = worlds(3, lookalikes=0, noise=0), worlds(3, lookalikes=1, noise=3)
    assert [_alike(made) < _alike(other) for made, other in zip(plain, crowded, strict=True)] == [
        True
    ] * 3
    for made, columns in ((plain[0], 0), (crowded[0], 3 * len(REFERENCE))):
        lines = made.package.schema_sql.split("\n")
        assert len([line for line in lines if line.endswith(" TEXT,")]) == columns


def _alike(made: GeneratedWorld) -> int:
    return sum(task.lookalikes for task in made.tasks)
