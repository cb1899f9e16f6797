"""What a reader at a terminal is shown of a run and of an episode."""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import msgspec
import pytest
from rich.console import Console

from envpool.core.types import ToolResult
from harness.core.events import Ending, EpisodeEnded, Judged, Label, StepTaken
from harness.core.messages import Act, AgentCall, FormatError, Reply
from harness.core.trajectory import Trajectory, assemble
from harness.log.reader import open_reader
from harness.log.writer import open_log
from harness.reports.episode_view import render_episode, render_run
from scenarios.api import RowChange
from tests.support.episode_logs import answer, ended, judged, started, step, story, whole
from tests.support.library_log import write_shelf


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _shown(render: Callable[[Console], None], width: int = 120) -> list[str]:
    """The lines that were rendered, without what is at their ends."""
    console = Console(file=io.StringIO(), width=width)
    render(console)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def _episode(*events: StepTaken | EpisodeEnded | Judged) -> Trajectory:
    return assemble(story("e1", [started(), *events]))


async def test_a_run_is_shown_by_task(tmp_path: Path) -> None:
    """Each task has its episodes, its rate among the judged, its labels and its endings."""
    failed = story("b", [started(), step(0), ended(1, Ending.STEP_LIMIT)])
    failed += [msgspec.structs.replace(failed[-1], seq=3, event=judged(Label.AGENT_ERROR))]
    other = story("d", [started("list-all"), step(0)])
    async with open_log(tmp_path) as log:
        for record in [*whole("a"), *failed, *whole("c", label=None), *other]:
            log.append(record)
    with open_reader(tmp_path) as reader:
        lines = _shown(partial(render_run, reader), width=160)

    assert lines[0] == f"{tmp_path}: 4 episodes"
    rows = [line.split() for line in lines]
    outcomes = "1 agent_error, 1 completed, 1 unjudged 2 answered, 1 step_limit"
    assert f"shop void-7 3 50% 1.7 1.50 {outcomes}".split() in rows
    assert ["shop", "list-all", "1", "-", "1.0", "0.00", "not", "judged", "cut", "off"] in rows
    assert ["answered", "2", "█" * 40] in rows
    assert ["cut", "off", "1", "█" * 20] in rows
    listed = [row[0] for row in rows[rows.index(["episodes"]) + 2 :] if row]
    assert listed == ["b", "c", "d", "a"]


def test_every_task_of_a_played_world_is_shown(tmp_path: Path) -> None:
    """A run on a real world shows each of its tasks and can show each of its episodes."""
    dumps = anyio.run(write_shelf, tmp_path)
    with open_reader(tmp_path) as reader:
        text = "\n".join(_shown(partial(render_run, reader)))
        for task in dumps:
            assert task in text
            trajectory = reader.trajectory(task)
            lines = _shown(partial(render_episode, trajectory))
            turns = [line for line in lines if line.startswith("turn ")]
            assert len(turns) == len(trajectory.steps)
            calls = [line for line in lines if line.startswith("  → ")]
            assert len(calls) == len(trajectory.steps) - 1


async def test_an_empty_run_is_shown(tmp_path: Path) -> None:
    """A run without an episode is one line."""
    async with open_log(tmp_path):
        pass
    with open_reader(tmp_path) as reader:
        assert _shown(partial(render_run, reader)) == [f"{tmp_path}: 0 episodes"]


async def test_a_long_run_is_cut_to_a_page(tmp_path: Path) -> None:
    """Of many episodes some are listed and the rest is counted."""
    async with open_log(tmp_path) as log:
        for number in range(100):
            for record in whole(f"e{number}"):
                log.append(record)
    with open_reader(tmp_path) as reader:
        lines = _shown(partial(render_run, reader))
    assert lines[-1] == "and 85 more episodes"
    assert len(lines) < 40


def test_an_episode_is_shown_turn_by_turn() -> None:
    """What was said, called, given and changed, how it ended, and what the judge found."""
    lines = _shown(
        lambda console: render_episode(_episode(step(0), answer(), ended(2), judged()), console)
    )
    text = "\n".join(lines)
    for expected in (
        "episode e1",
        "task   shop / void-7",
        "policy oracle, dialect native, history full",
        "Please void order 7.",
        "turn 1  0.50 s",
        "  I void it.",
        "  → void_order(order_id=7, step=0)",
        '  ← {"id": 7}',
        '    orders 7  status  "open"  "void"',
        "turn 2  0.00 s",
        "  gives the final answer",
        "ended: answered  2 steps, 1.50 s",
        "Done: order 7 is void.",
        "judge code: completed, reward 1",
    ):
        assert expected in text
    assert "✓" in text
    assert text.count("Done: order 7 is void.") == 1


def test_failures_are_told_apart() -> None:
    """A refused call, a format error, an ending with its reason, and a judge that could not."""
    call = AgentCall("void_order", "not an object", "c0-0")
    refused = StepTaken(Reply(), Act((call,)), (ToolResult("Order 7 is paid.", "refused"),))
    wrong = StepTaken(Reply("<tool>"), FormatError("the call is not closed"), reward=-1.0)
    end = EpisodeEnded(Ending.POLICY_ERROR, "", 2, None, error="the server is away")
    trajectory = _episode(refused, wrong, end, judged(None))
    text = "\n".join(_shown(partial(render_episode, trajectory)))
    for expected in (
        '→ void_order("not an object")',
        "← refused: Order 7 is paid.",
        "turn 2  0.00 s, reward -1",
        "format error: the call is not closed",
        "ended: policy_error",
        "the server is away",
        "judge code: unjudged: the model server died",
    ):
        assert expected in text


def test_an_episode_that_was_cut_off_says_so() -> None:
    """Without an end there is no answer and no verdict, but a word about it."""
    lines = _shown(lambda console: render_episode(_episode(step(0)), console))
    assert lines[-1] == "not ended: live, or cut off"


def test_what_models_say_is_shown_as_text() -> None:
    """Markup is not obeyed, control characters cannot reach the terminal, long texts are cut."""
    evil = AgentCall("[bold]x[/bold]", {"a": "\x1b[2J"}, "c0-0")
    change = RowChange("t[red]", ("[k]",), None, {"[c]": "\x1b]0;title\x07", "blob": b"123"})
    result = ToolResult("\x1b[31m[link=x]y[/link] " + "z" * 5_000, changes=(change,))
    trajectory = _episode(StepTaken(Reply("[/] \x9b31m"), Act((evil,)), (result,)))
    text = "\n".join(_shown(partial(render_episode, trajectory), width=700))
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in text.replace("\n", ""))
    for expected in (
        "→ [bold]x[/bold](",
        "← \\x1b[31m[link=x]y[/link] zz",
        "[/] \\x9b31m",
        "t[red]",
        "[c]",
        "zzz… (5,025 characters)",
    ):
        assert expected in text
    assert "z" * 600 not in text


def test_what_turns_text_around_is_shown() -> None:
    """Marks of direction and characters without width are shown by number, so that a text reads
    as it is."""
    trajectory = _episode(
        StepTaken(Reply("a\u202eb\u200bc\u2066d\ufeffe\u2028f\xadg — é✓"), Act(()))
    )
    text = "\n".join(_shown(partial(render_episode, trajectory)))
    assert "a\\u202eb\\u200bc\\u2066d\\ufeffe\\u2028f\\u00adg — é✓" in text


def test_many_changed_rows_are_counted() -> None:
    """A call that changes hundreds of rows shows a dozen and counts the rest."""
    changes = tuple(RowChange("t", (n,), {"id": n, "v": 0}, {"id": n, "v": 1}) for n in range(300))
    call = AgentCall("all", {}, "c0-0")
    trajectory = _episode(StepTaken(Reply(), Act((call,)), (ToolResult("ok", changes=changes),)))
    lines = _shown(partial(render_episode, trajectory))
    assert sum(line.strip().startswith("t ") for line in lines) == 12
    assert "    and 288 more rows" in lines
