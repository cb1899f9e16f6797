"""A run on a terminal."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.harness.core.events import Ending, EpisodeEnded, Label, Record
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.harness.reports.episode_view import render_episode
from rehearsal_room.harness.reports.run_view import ENDINGS, LABELS, SORTS, render_run
from rehearsal_room.scenarios.catalogue import find
from tests.support.episode_logs import answer, ended, judged, started, step, story, whole
from tests.support.library_log import write_shelf
from tests.support.terminal import printed

BUNDLED = ("shop_support", "flight_desk", "claims_desk")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def episode(
    name: str,
    task: str = "void-7",
    label: Label | None = Label.COMPLETED,
    *,
    scenario: str = "shop",
    steps: int = 1,
    end: EpisodeEnded | None = None,
) -> list[Record]:
    """An episode of so many calls and an answer, or of another `end`."""
    start = msgspec.structs.replace(started(task), scenario=scenario)
    calls = [step(number) for number in range(steps)]
    end = end or ended(steps + 1)
    return story(name, [start, *calls, answer(), end, judged(label)])


async def shown(folder: Path, records: Sequence[Record], width: int = 80, **options: Any) -> str:
    """What is printed of a run with these records."""
    async with open_log(folder) as log:
        for record in records:
            await log.wait_for_room()
            log.append(record)
    return again(folder, width, **options)


def again(folder: Path, width: int = 80, **options: Any) -> str:
    """What is printed of the run in a folder."""
    with open_reader(folder) as reader:
        return "\n".join(printed(partial(render_run, reader, **options), width))


def rows_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


async def test_tasks_are_grouped_by_scenario(tmp_path: Path) -> None:
    """Each outcome has a column, failing tasks come first and name an episode, and episodes that
    were not judged are not counted as failures."""
    records = [
        *episode("a", "renew"),
        *episode("b", "void-7"),
        *episode("c", "void-7", Label.PARTIALLY_COMPLETED),
        *episode("d", "void-7", Label.AGENT_ERROR),
        *episode("e", "list", None, scenario="desk"),
    ]
    text = await shown(tmp_path, records)
    assert text.splitlines()[:2] == [
        f"{tmp_path}: 5 episodes, played by oracle (no model)",
        "3 tasks: 2 completed (50%; 40% to 60%), 1 partly, 1 failed, 1 unjudged",
    ]
    assert rows_of(text)[3:9] == [
        ["completed", "partly", "failed", "unjudged", "example"],
        ["desk", "·", "·", "·", "1"],
        ["list", "·", "·", "·", "1", "e"],
        ["shop", "2", "1", "1", "·"],
        ["void-7", "1", "1", "1", "·", "d"],
        ["renew", "1", "·", "·", "·"],
    ]


async def test_a_run_without_a_judge_counts_answers(tmp_path: Path) -> None:
    """Without verdicts the columns show whether the agent answered."""
    cut_off = story("c", [started(), step(0)])
    limit = story("b", [started(), step(0), ended(1, Ending.STEP_LIMIT)])
    records = [*story("a", [started(), step(0), answer(), ended(2)]), *limit, *cut_off]
    text = await shown(tmp_path, records)
    assert "1 task: 1 answered, 2 other" in text
    assert ["void-7", "1", "2", "b"] in rows_of(text)
    assert ["cut", "off", "1", "█" * 40] in rows_of(text)
    assert ["not", "judged", "3", "█" * 40] in rows_of(text)


@pytest.mark.parametrize(("width", "full"), [(80, False), (100, True)])
def test_every_task_of_the_bundled_worlds_is_one_line(
    tmp_path: Path, width: int, full: bool
) -> None:
    """At 80 columns each task of the bundled worlds has one line with its whole name; with `full`,
    which adds columns, at 100."""
    tasks = [(name, task.id) for name in BUNDLED for task in find(name).default_tasks]
    labels = (*Label, None)
    records = [
        record
        for number, (scenario, task) in enumerate(tasks)
        for record in episode(
            f"e{number:06d}", task, labels[number % 3], scenario=scenario, steps=number % 13
        )
    ]
    text = anyio.run(partial(shown, tmp_path, records, width, full=full))
    lines = text.splitlines()
    assert max(map(len, lines[1:])) <= width  # the first line has the folder, of any length
    table = lines[3 : lines.index("endings") - 1]
    assert len(table) == 1 + len(BUNDLED) + len(tasks)
    assert {line.split()[0] for line in table[1:]} == {*BUNDLED, *(task for _, task in tasks)}


async def test_of_hundreds_of_episodes_the_failures_come_first(tmp_path: Path) -> None:
    """Failing tasks and episodes are listed, the others are counted; `full` lists all."""
    records = [
        record
        for number in range(300)
        for record in episode(
            f"e{number:06d}",
            f"task-{number % 60:02d}",
            Label.AGENT_ERROR if number in (58, 297) else Label.COMPLETED,
        )
    ]
    lines = (await shown(tmp_path, records)).splitlines()
    rows = [line.split() for line in lines]
    assert rows[4:7] == [
        ["shop", "298", "·", "2"],
        ["task-57", "4", "·", "1", "e000297"],
        ["task-58", "4", "·", "1", "e000058"],
    ]
    assert "  and 10 more tasks, all completed" in lines
    listed = rows[rows.index(["episodes"]) + 2 :]
    assert [row[0] for row in listed[:3]] == ["e000058", "e000297", "e000000"]
    assert lines[-1] == "and 285 more episodes"
    assert len(lines) < 90
    everything = again(tmp_path, full=True)
    assert everything.count("e000") >= 300
    assert "more" not in everything


async def test_episodes_are_selected(tmp_path: Path) -> None:
    """Label, task and ending select episodes; the first line shows which were chosen."""
    limit = EpisodeEnded(Ending.STEP_LIMIT, "", 2, None)
    records = [
        *episode("a", "refund-late", Label.AGENT_ERROR),
        *episode("b", "refund-early"),
        *episode("c", "void-7", None),
        *episode("d", "void-7", Label.AGENT_ERROR, end=limit),
        *story("e", [started("void-8")]),
    ]
    await shown(tmp_path, records)

    def names(**options: str) -> list[str]:
        rows = rows_of(again(tmp_path, **options))
        return [row[0] for row in rows[rows.index(["episodes"]) + 2 :]]

    assert names(label="agent_error") == ["a", "d"]
    assert names(label="unjudged") == ["c", "e"]
    assert names(task="refund-*") == ["a", "b"]
    assert names(task="shop:void-7") == ["d", "c"]
    assert names(ending="cut_off") == ["e"]
    assert names(ending="step_limit", label="agent_error") == ["d"]
    first = again(tmp_path, task="refund-*", label="completed").splitlines()[0]
    assert first == f"{tmp_path}: 1 of 5 episodes with label completed, task refund-*"
    assert again(tmp_path, task="nothing").splitlines() == [
        f"{tmp_path}: 0 of 5 episodes with task nothing"
    ]


@pytest.mark.parametrize(
    ("sort", "tasks", "episodes"),
    [
        ("failures", ["b", "a", "c"], ["e2", "e1", "e3"]),
        ("task", ["a", "b", "c"], ["e3", "e2", "e1"]),
        ("episode", ["c", "b", "a"], ["e1", "e2", "e3"]),
        ("steps", ["c", "a", "b"], ["e1", "e3", "e2"]),
        ("seconds", ["a", "b", "c"], ["e3", "e2", "e1"]),
    ],
)
async def test_lists_are_sorted(
    tmp_path: Path, sort: str, tasks: list[str], episodes: list[str]
) -> None:
    """Tasks and episodes go by failures, name, episode, steps or seconds, the most first."""

    def end(steps: int, seconds: float) -> EpisodeEnded:
        return msgspec.structs.replace(ended(steps + 1), seconds=seconds)

    records = [
        *episode("e1", "c", steps=9, end=end(9, 1.0)),
        *episode("e2", "b", Label.AGENT_ERROR, steps=1, end=end(1, 2.0)),
        *episode("e3", "a", steps=5, end=end(5, 3.0)),
    ]
    rows = rows_of(await shown(tmp_path, records, sort=sort))
    assert [row[0] for row in rows[5:8]] == tasks
    assert [row[0] for row in rows[rows.index(["episodes"]) + 2 :]] == episodes


def test_the_words_of_the_options() -> None:
    """The options take the words that the log uses, and one for what has none."""
    assert (*map(str, Label), "unjudged") == LABELS
    assert (*map(str, Ending), "cut_off") == ENDINGS
    assert SORTS == ("failures", "task", "episode", "steps", "seconds")


async def test_a_reason_stays_on_its_line(tmp_path: Path) -> None:
    """The reason of a failure is cut at the line's end, `full` shows all of it, and what drives a
    terminal is shown by its escape."""
    error = "the world failed in a call of pay_fine: \x1b[2J" + "too slow " * 30
    end = EpisodeEnded(Ending.WORLD_ERROR, "", 1, None, error=error)
    text = await shown(tmp_path, episode("a", label=Label.ENVIRONMENT_ERROR, end=end))
    line = text.splitlines()[-1]
    assert line.startswith("a        env error  world_error      1  void-7: the world failed in")
    assert len(line) == 80
    assert line.endswith("…")
    whole_text = again(tmp_path, full=True)
    assert "\\x1b[2J" in whole_text
    assert whole_text.count("too slow") + whole_text.count("too\n") >= 25


def test_every_task_of_a_played_world_is_shown(tmp_path: Path) -> None:
    """A run on a real world shows each of its tasks and can show each of its episodes."""
    dumps = anyio.run(write_shelf, tmp_path)
    with open_reader(tmp_path) as reader:
        text = "\n".join(printed(partial(render_run, reader)))
        for task in dumps:
            assert task in text
            trajectory = reader.trajectory(task)
            lines = printed(partial(render_episode, trajectory))
            turns = [line for line in lines if line.startswith("turn ")]
            assert len(turns) == len(trajectory.steps)
            calls = [line for line in lines if line.startswith("  → ")]
            assert len(calls) == len(trajectory.steps) - 1


async def test_an_empty_run_is_shown(tmp_path: Path) -> None:
    """A run without an episode is one line."""
    assert await shown(tmp_path, []) == f"{tmp_path}: 0 episodes"


async def test_a_group_of_good_episodes(tmp_path: Path) -> None:
    """A task without a failure names no episode."""
    text = await shown(tmp_path, [*whole("a"), *whole("b")])
    assert "1 task: 2 completed (100%)" in text
    assert ["void-7", "2", "·", "·"] in rows_of(text)
