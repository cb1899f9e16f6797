"""Whole runs of a user's own agent with a real log, the real judge and real time."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

import rehearsal_room as rr
from rehearsal_room.harness.agents.agent_env import AgentEnv, AgentFunction, TaskView
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.library import Rehearsal, rehearse
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from tests.support.paths import LIBRARY, ROOT

EXAMPLE = ROOT / "examples" / "own_agent.py"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def oracle(task: TaskView, env: AgentEnv) -> str:
    """An agent that knows one task."""
    if "Anna Soll pays" not in task.instruction:
        raise LookupError("that one is too hard")
    await env.call("pay_fine", {"member_id": 2, "amount_cents": 350, "method": "card"})
    return "Anna Soll's fine of 3.50 is paid by card; she owes nothing now."


def rows_of(folder: Path) -> dict[str, EpisodeRow]:
    with open_reader(folder) as reader:
        return {row.episode: row for row in reader.episodes()}


async def test_a_rehearsal(tmp_path: Path) -> None:
    """Episodes of a user's own agent are logged, judged and counted; one that fails does not stop
    the others."""
    report = await rehearse(
        oracle,
        [f"{LIBRARY}:pay-fine", f"{LIBRARY}:overdue"],
        tmp_path / "run",
        episodes=12,
        group_size=3,
        judge=ScenarioJudges,
    )
    assert (report.episodes, report.pass_rate, report.mean_reward) == (12, 0.5, 0.5)
    assert report.endings == {"agent_failed": 6, "answered": 6}
    assert (report.labels, report.unjudged) == ({"agent_error": 6, "completed": 6}, 0)
    assert (report.failures, report.pass_bounds) == ({"agent_failure": 6}, (0.5, 0.5))
    assert report.folder == tmp_path / "run"
    rows = rows_of(report.folder).values()
    assert {row.policy for row in rows} == {"own:oracle"}
    assert {row.error for row in rows if row.task == "overdue"} == {
        f"LookupError: that one is too hard (test_own_agent.py, line {_line_of('too hard')})"
    }
    written = json.loads((report.folder / "report.json").read_text())
    assert written["endings"] == report.endings


def _line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


async def test_the_public_rehearsal_is_judged(tmp_path: Path) -> None:
    """By the worlds' code, unless `judge=None` is passed; the report names who played and has its
    statistics."""
    names = [f"{LIBRARY}:pay-fine"]
    report = await rr.rehearse(oracle, names, tmp_path / "run")
    assert (report.labels, report.pass_rate) == ({"completed": 1}, 1.0)
    assert report.policy == "own:oracle"
    assert report.statistics is not None
    unjudged = await rr.rehearse(oracle, names, tmp_path / "unjudged", judge=None)
    assert (unjudged.labels, unjudged.unjudged, unjudged.without_verdict) == ({}, 1, 1)
    assert unjudged.pass_bounds == (0.0, 1.0)


@pytest.mark.parametrize(
    "names", [f"{LIBRARY}:pay-fine", Path(f"{LIBRARY}:pay-fine"), (f"{LIBRARY}:pay-fine",)]
)
async def test_scenarios_are_one_name_or_several(tmp_path: Path, names: Any) -> None:
    """A text, a path or a sequence of them; a text is not taken for the names of its letters."""
    report = await rr.rehearse(oracle, names, tmp_path / "run")
    assert report.labels == {"completed": 1}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"scenarios": None}, "scenarios: expected names or paths of scenarios, found NoneType"),
        ({"scenarios": [5]}, "scenarios: expected names or paths of scenarios, found int"),
        ({"scenarios": []}, "scenarios: there is no task to run"),
        ({"agent": "oracle"}, "agent: expected an async function, found str"),
        ({"output": ""}, "output: expected the path of a folder, found ''"),
        ({"output": None}, "output: expected the path of a folder, found None"),
        ({"episodes": "3"}, "episodes: expected a whole number, found '3'"),
        ({"group_size": 1.5}, "group_size: expected a whole number, found 1.5"),
        ({"concurrency": 0}, "concurrency: must be at least 1, not 0"),
    ],
)
async def test_wrong_arguments_are_one_sentence(
    tmp_path: Path, changed: dict[str, Any], sentence: str
) -> None:
    """Before anything is played or written."""
    right = {"agent": oracle, "scenarios": [LIBRARY], "output": tmp_path / "run"}
    with pytest.raises(SettingsError, match=f"^{re.escape(sentence)}$"):
        await rr.rehearse(**{**right, **changed})
    assert not (tmp_path / "run").exists()


async def test_a_rehearsal_is_resumed(tmp_path: Path) -> None:
    """A cancelled rehearsal that is resumed runs the missing episodes, and only those."""
    begun: list[str] = []
    is_stuck = anyio.Event()

    async def stuck(task: TaskView, env: AgentEnv) -> str:
        begun.append(task.episode)
        if len(begun) == 6:
            is_stuck.set()
        if len(begun) > 4:
            await anyio.sleep_forever()
        return await oracle(task, env)

    async def run(agent: AgentFunction, resume: bool) -> Rehearsal:
        return await rehearse(
            agent,
            [f"{LIBRARY}:pay-fine"],
            tmp_path / "run",
            episodes=8,
            concurrency=2,
            judge=ScenarioJudges,
            resume=resume,
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, stuck, False)
        await is_stuck.wait()
        tasks.cancel_scope.cancel()
    endings = [row.ending for row in rows_of(tmp_path / "run").values()]
    assert endings == [Ending.ANSWERED] * 4 + [Ending.CANCELLED] * 2
    report = await run(oracle, True)
    assert (report.endings, report.labels) == ({"answered": 8}, {"completed": 8})
    attempts = [row.attempt for row in rows_of(tmp_path / "run").values()]
    assert attempts == [1] * 4 + [2] * 2 + [1] * 2


async def test_fewer_episodes_than_tasks_play_a_sample(tmp_path: Path) -> None:
    """The same sample each time; a run that is resumed with more episodes goes on in its order, and
    one of other tasks is refused."""

    async def agent(task: TaskView, env: AgentEnv) -> str:
        return "I do not know."

    async def tasks(folder: str, scenario: str, episodes: int, *, resume: bool) -> list[str]:
        await rehearse(agent, [scenario], tmp_path / folder, episodes=episodes, resume=resume)
        return [row.task for row in rows_of(tmp_path / folder).values()]

    every = [task.id for task in rr.find_world("shop_support").default_tasks]
    part = await tasks("run", "shop_support", 4, resume=False)
    assert part not in (every[:4], sorted(every)[:4])
    assert await tasks("again", "shop_support", 4, resume=False) == part
    whole = await tasks("run", "shop_support", len(every), resume=True)
    assert (whole[:4], sorted(whole)) == (part, sorted(every))
    assert await tasks("whole", "shop_support", len(every), resume=False) == every
    with pytest.raises(SettingsError, match="played other tasks"):
        await tasks("run", str(LIBRARY), 4, resume=True)


async def test_a_task_that_is_cancelled_inside_of_an_agent(tmp_path: Path) -> None:
    """When the agent awaits a cancelled task of its own, that is the agent's failure: its episode
    ends with `agent_failed` and the run continues."""

    async def agent(task: TaskView, env: AgentEnv) -> str:
        helper = asyncio.ensure_future(asyncio.sleep(60))
        await env.call("list_overdue")
        helper.cancel()
        await helper
        return "unreachable"

    names = [f"{LIBRARY}:pay-fine"]
    report = await rehearse(agent, names, tmp_path / "run", episodes=5, concurrency=1)
    assert report.endings == {"agent_failed": 5}


@pytest.mark.slow
def test_the_example(tmp_path: Path) -> None:
    """The README's example runs without a change, and its agent completes its task."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    last = done.stdout.splitlines()[-1]
    folder = Path(last.rpartition("rehearse show ")[2])
    assert last.startswith("pass rate 0.")
    completed = [row.task for row in rows_of(folder).values() if row.label == "completed"]
    assert "gift-card-balance" in completed


def test_the_readme_shows_the_example() -> None:
    """The README has the example's code, from its imports on."""
    code = EXAMPLE.read_text(encoding="utf-8").partition('"""\n\n')[2].strip()
    assert code in (EXAMPLE.parent.parent / "README.md").read_text(encoding="utf-8")
