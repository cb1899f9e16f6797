"""One real run of nine worlds with ten tasks each: every surface has the same shares, intervals and
unit, whichever is chosen."""

import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.cli import Rehearse, json_of
from tests.support.viewer_client import viewing

WORLDS = "the unit is the world: the intervals are about other worlds like these 9"
TASKS = (
    "the unit is the task: the intervals are about further tasks of these 9 worlds alone, as asked"
)
GATE = """
[[stage]]
name = "s"
criteria = ["completed.lower >= 0.01", "regression.vs(base) >= -0.9"]
"""
ENDED = re.compile(r"completed ([\d.]+)% \(([\d.]+) to ([\d.]+)\)")


def numbers(found: dict[str, float]) -> tuple[float, ...]:
    """An interval in tenths of a percent, as it is printed."""
    return tuple(round(100 * found[name], 1) for name in ("value", "lower", "upper"))


def printed(text: str) -> tuple[float, ...]:
    match = ENDED.search(text)
    assert match is not None, text
    return tuple(map(float, match.groups()))


@pytest.mark.slow  # 270 episodes on nine generated worlds
def test_all_surfaces_say_the_same(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run`, report.json, `show`, `compare`, `promote`, `failures` and the viewer: by world, which
    follows from the tasks, and by task, which the run's settings may ask for and a flag, too."""
    monkeypatch.setenv("COLUMNS", "200")
    worlds = tmp_path / "worlds"
    rehearse("worlds", "generate", "--count", "9", "--seed", "21", "-o", worlds)
    packages = sorted(path.parent for path in worlds.glob("*/tasks.toml"))
    base, run, by_task = (tmp_path / name for name in ("base", "run", "by_task"))
    rehearse("run", *packages, "-p", "mutant", "--seed", "5", "-o", base)
    status, out, _ = rehearse("run", *packages, "-p", "mutant", "-o", run)
    assert status == 0
    _check(rehearse, tmp_path, run, base, about=WORLDS, out=out)
    flags = "-p", "mutant", "--unit", "task"
    status, out, _ = rehearse("run", *packages, *flags, "-o", by_task)
    _check(rehearse, tmp_path, by_task, base, about=TASKS, out=out)

    report = _report(run)["statistics"]
    narrow = _report(by_task)["statistics"]
    assert report["completed"]["value"] == narrow["completed"]["value"]
    assert report["completed"] != narrow["completed"]
    _, out, _ = rehearse("show", run, "--unit", "task")
    assert printed(out) == numbers(narrow["completed"])
    compared = json_of(rehearse, "compare", base, run, "--unit", "task")
    assert (compared["unit"], compared["units"]) == ("task", 90)
    assert compared["runs"][1]["completed"] == narrow["completed"]


def _report(folder: Path) -> Any:
    return json.loads((folder / "report.json").read_bytes())


def _check(
    rehearse: Rehearse, folder: Path, run: Path, base: Path, *, about: str, out: str
) -> None:
    """What all surfaces say of one run."""
    unit = about.split(":")[0].rsplit(" ", 1)[1]
    statistics = _report(run)["statistics"]
    share = statistics["completed"]
    assert (statistics["unit"], statistics["about"]) == (unit, about)
    assert about in out and printed(out) == numbers(share)
    _, shown, _ = rehearse("show", run)
    assert about in shown and printed(shown) == numbers(share)

    asked = [] if unit == "world" else ["--unit", unit]
    compared = json_of(rehearse, "compare", base, run, *asked)
    assert (compared["unit"], compared["about"]) == (unit, about)
    assert (compared["runs"][1]["completed"], compared["runs"][1]["unit"]) == (share, unit)
    _, text, _ = rehearse("compare", base, run, *asked)
    assert about in text and f"so many {unit}s show" in text

    gate = folder / "gate.toml"
    gate.write_text(GATE)
    promoted = json_of(rehearse, "promote", gate, run, "--against", base)
    assert (promoted["unit"], promoted["about"]) == (unit, about)
    found, change = promoted["criteria"]
    assert {name: found[name] for name in share} == share
    assert [change["lower"], change["upper"]] == pytest.approx(compared["interval"])

    failures = json_of(rehearse, "failures", run)
    assert (failures["unit"], failures["about"]) == (unit, about)
    page, tables = anyio.run(_seen, run)
    assert (page["line"]["completed"], page["line"]["about"]) == (share, about)
    assert page["statistics"] == statistics
    assert {row["name"]: row["rate"] for row in tables["tag"]["rows"]} == {
        tag: one["completed"] for tag, one in statistics["tags"].items()
    }
    assert {by: table["about"] for by, table in tables.items()} == {
        "task": "the intervals are about further tries at each task",
        "world": "the intervals are about further tasks of each world",
        "tag": about,
        "kind": about,
    }
    for row in tables["kind"]["rows"]:
        kind = failures["kinds"][row["name"]]
        assert row["rate"] == {
            "value": kind["share"],
            "lower": kind["lower"],
            "upper": kind["upper"],
        }
    by_world = {row["name"]: row["rate"] for row in tables["world"]["rows"]}
    for name, world in failures["worlds"].items():
        assert by_world[name]["value"] == pytest.approx(1 - world["failed"]["share"])
        assert by_world[name]["lower"] == pytest.approx(1 - world["failed"]["upper"])


async def _seen(run: Path) -> tuple[Any, dict[str, Any]]:
    """The page of a run in the viewer, and its tables of tasks."""
    async with viewing(run) as client:
        address = f"/api/runs/{run_id(run)}"
        page = await client.get(address)
        tables = {
            by: await client.get(f"{address}/tasks?by={by}&limit=1000")
            for by in ("task", "world", "tag", "kind")
        }
    return page, tables


def test_a_size_in_worlds_is_asked_for(rehearse: Rehearse) -> None:
    """`compare size` by world says how many worlds, which more tasks in each do not replace; what
    makes no sense is one sentence."""
    asked = ("compare", "size", "--detect", "10pt", "--world-spread", "0.1", "--tasks-per-world")
    ten, thousand = (json_of(rehearse, *asked, size) for size in (10, 1_000))
    assert ten["tasks"] == 10 * ten["worlds"] == 10 * ten["clusters"]
    assert 8 < thousand["worlds"] < ten["worlds"]
    status, out, _ = rehearse("compare", "size", "--tasks", 200, "--tasks-per-world", 10)
    assert status == 0 and out.startswith("20 worlds with 200 tasks")
    status, _, err = rehearse("compare", "size", "--detect", "10pt", "--world-spread", "0.1")
    assert status == 2 and "--tasks-per-world" in err
    status, _, err = rehearse("compare", "size", "--tasks", 40, "--tasks-per-world", 10)
    assert status == 2 and "4 worlds cannot show a difference" in err
