"""Episodes that a program asks for one by one."""

from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from rehearsal_room.bridges.asked_episodes import OpenRun
from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.driven import DrivenEpisode
from rehearsal_room.bridges.open_run import open_run
from rehearsal_room.bridges.run_options import RunOptions, RunOverError
from rehearsal_room.harness.agents.agent_env import StepLimit
from rehearsal_room.harness.core.errors import LogError, SettingsError
from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from tests.support.paths import LIBRARY
from tests.support.run_context import MovesPolicy, never

TASK = "library:pay-fine"
PAY = {"member_id": 2, "amount_cents": 250, "method": "card"}
OPTIONS = RunOptions(judge=ScenarioJudges, policy=OraclePolicy(Native()))


@pytest.fixture
def anyio_backend() -> str:
    """A run runs on asyncio."""
    return "asyncio"


def _endings(folder: Path) -> dict[str, Ending | None]:
    with open_reader(folder) as reader:
        return {row.episode: row.ending for row in reader.episodes()}


async def test_episodes_are_played_on_request(tmp_path: Path) -> None:
    """Each request is an episode with its verdict; the run is logged and has a report."""
    async with open_run(tmp_path / "run", [str(LIBRARY)], OPTIONS) as run:
        first = await run.play(TASK, group="g7", member=1, group_size=2, seed=9)
        second = await run.play(TASK)
    labels = [judged.label for judged in (*first.judged, *second.judged)]
    assert labels == [Label.COMPLETED, Label.COMPLETED]
    started = first.started
    assert (started.group, started.member, started.group_size, started.seed) == ("g7", 1, 2, 9)
    assert (first.episode, second.episode) == ("e000000", "e000001")
    assert (tmp_path / "run" / "report.json").exists()
    assert _endings(tmp_path / "run") == dict.fromkeys(("e000000", "e000001"), Ending.ANSWERED)


async def test_an_unjudged_run(tmp_path: Path) -> None:
    """Without a judge an episode is finished when it has ended."""
    async with open_run(tmp_path / "run", [str(LIBRARY)], RunOptions()) as run:
        trajectory = await run.play(TASK)
    assert trajectory.ended is not None and trajectory.judged == ()


async def test_an_unknown_task_is_refused(tmp_path: Path) -> None:
    """The sentence names the task and some that there are."""
    async with open_run(tmp_path / "run", [str(LIBRARY)], OPTIONS) as run:
        with pytest.raises(SettingsError, match="no task 'library:none'; it has"):
            await run.play("library:none")


async def test_a_folder_with_a_run_is_refused(tmp_path: Path) -> None:
    """The failure of the log comes out as it is, without a group around it."""
    async with open_run(tmp_path / "run", [str(LIBRARY)], OPTIONS):
        pass
    with pytest.raises(LogError):
        async with open_run(tmp_path / "run", [str(LIBRARY)], OPTIONS):
            pass


async def test_live_episodes_end_with_the_run(tmp_path: Path) -> None:
    """An episode that is live when the run is closed is recorded as cancelled, and judged."""
    raised: list[Exception] = []

    async def play(run: OpenRun) -> None:
        try:
            await run.play(TASK, policy=MovesPolicy(never))
        except RunOverError as exc:
            raised.append(exc)

    opened = open_run(tmp_path / "run", [str(LIBRARY)], OPTIONS)
    async with anyio.create_task_group() as tasks, opened as run:
        tasks.start_soon(play, run)
        await anyio.wait_all_tasks_blocked()
    assert "e000000 was cancelled" in str(raised[0])
    assert _endings(tmp_path / "run") == {"e000000": Ending.CANCELLED}


async def test_a_run_whose_body_fails_closes(tmp_path: Path) -> None:
    """A bug in the program comes out unchanged."""
    with pytest.raises(ZeroDivisionError):
        async with open_run(tmp_path / "run", [str(LIBRARY)], OPTIONS) as run:
            await run.play(TASK)
            raise ZeroDivisionError


async def test_steps_from_outside(tmp_path: Path) -> None:
    """Calls from outside are steps, and the answer brings the verdict."""
    async with open_run(tmp_path / "run", [str(LIBRARY)], OPTIONS) as run:
        episode = await DrivenEpisode.begin(run, TASK, by="test")
        assert "pay_fine" in [tool.name for tool in episode.tools]
        assert episode.view.instruction
        _, task = run.task(TASK)
        for call in task.oracle:
            result = await episode.call(call.name, call.arguments)
            assert result.error is None
        trajectory = await episode.finish(task.answer)
        assert await episode.finish("too late") is trajectory
    assert trajectory.started.policy == "own:test"
    assert [judged.label for judged in trajectory.judged] == [Label.COMPLETED]
    assert trajectory.ended is not None and trajectory.ended.answer == task.answer


async def test_an_episode_from_outside_that_runs_out_of_steps(tmp_path: Path) -> None:
    """The call past the limit is refused, and the episode ends with `step_limit` by itself."""
    options = RunOptions(judge=ScenarioJudges, limits=Limits(max_steps=1))
    async with open_run(tmp_path / "run", [str(LIBRARY)], options) as run:
        episode = await DrivenEpisode.begin(run, TASK, by="test")
        await episode.call("list_overdue", {})
        with pytest.raises(StepLimit):
            await episode.call("list_overdue", {})
        trajectory = await episode.finish("")
    assert trajectory.ended is not None and trajectory.ended.ending is Ending.STEP_LIMIT


async def test_an_episode_from_outside_can_be_given_up(tmp_path: Path) -> None:
    """A cancelled episode gives its world back and has no verdict to wait for."""
    async with open_run(tmp_path / "run", [str(LIBRARY)], OPTIONS) as run:
        episode = await DrivenEpisode.begin(run, TASK, by="test")
        await episode.cancel()
        with pytest.raises(RunOverError, match="cancelled"):
            await episode.finish("")
    assert _endings(tmp_path / "run") == {"e000000": Ending.CANCELLED}


def test_a_run_in_the_background(tmp_path: Path) -> None:
    """A program without an event loop plays episodes; closing writes the report, twice is fine."""
    run = BackgroundRun(tmp_path / "run", [str(LIBRARY)], OPTIONS)
    trajectory = run.call(OpenRun.play, TASK)
    assert [judged.label for judged in trajectory.judged] == [Label.COMPLETED]
    run.close()
    run.close()
    assert (tmp_path / "run" / "report.json").exists()
    with pytest.raises(RuntimeError, match="is closed"):
        run.call(OpenRun.play, TASK)


async def test_a_run_in_the_background_of_another_loop(tmp_path: Path) -> None:
    """A program with an event loop of its own awaits episodes, and may abandon one."""
    run = BackgroundRun(tmp_path / "run", [str(LIBRARY)], OPTIONS)
    try:
        trajectory = await run.run(OpenRun.play, TASK)
        assert trajectory.judged[0].label is Label.COMPLETED
        with anyio.move_on_after(0.05):
            await run.run(_play_for_ever)
    finally:
        await anyio.to_thread.run_sync(run.close)
    assert _endings(tmp_path / "run")["e000001"] is Ending.CANCELLED


async def _play_for_ever(run: OpenRun) -> None:
    await run.play(TASK, policy=MovesPolicy(never))
