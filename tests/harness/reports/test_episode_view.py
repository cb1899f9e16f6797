"""An episode on a terminal."""

from functools import partial

import msgspec

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import Ending, EpisodeEnded, Judged, StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, FormatError, Reply
from rehearsal_room.harness.core.trajectory import Trajectory, assemble
from rehearsal_room.harness.reports.episode_view import render_episode
from rehearsal_room.scenarios.api import RowChange
from tests.support.episode_logs import answer, ended, judged, started, step, story
from tests.support.terminal import printed


def _episode(*events: StepTaken | EpisodeEnded | Judged) -> Trajectory:
    return assemble(story("e1", [started(), *events]))


def test_an_episode_is_shown_turn_by_turn() -> None:
    """Each turn has its text, calls, results and changed rows; the end and the verdict follow."""
    lines = printed(
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


def test_kinds_of_failures_differ() -> None:
    """A refused call, a format error, an ending with its reason, and a judge that failed."""
    call = AgentCall("void_order", "not an object", "c0-0")
    refused = StepTaken(Reply(), Act((call,)), (ToolResult("Order 7 is paid.", "refused"),))
    wrong = StepTaken(Reply("<tool>"), FormatError("the call is not closed"), reward=-1.0)
    end = EpisodeEnded(Ending.POLICY_ERROR, "", 2, None, error="the server is away")
    trajectory = _episode(refused, wrong, end, judged(None))
    text = "\n".join(printed(partial(render_episode, trajectory)))
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


def test_an_episode_that_was_cut_off() -> None:
    """An episode without an end is marked as not ended."""
    lines = printed(lambda console: render_episode(_episode(step(0)), console))
    assert lines[-1] == "not ended: live, or cut off"


def test_texts_of_models_are_plain_text() -> None:
    """Markup has no effect, control characters do not reach the terminal, long texts are cut."""
    evil = AgentCall("[bold]x[/bold]", {"a": "\x1b[2J"}, "c0-0")
    change = RowChange("t[red]", ("[k]",), None, {"[c]": "\x1b]0;title\x07", "blob": b"123"})
    result = ToolResult("\x1b[31m[link=x]y[/link] " + "z" * 5_000, changes=(change,))
    trajectory = _episode(StepTaken(Reply("[/] \x9b31m"), Act((evil,)), (result,)))
    text = "\n".join(printed(partial(render_episode, trajectory), width=700))
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


def test_invisible_characters_are_shown() -> None:
    """Direction marks and characters without width are shown by number, so that they cannot
    disguise a text."""
    trajectory = _episode(
        StepTaken(Reply("a\u202eb\u200bc\u2066d\ufeffe\u2028f\xadg — é✓"), Act(()))
    )
    text = "\n".join(printed(partial(render_episode, trajectory)))
    assert "a\\u202eb\\u200bc\\u2066d\\ufeffe\\u2028f\\u00adg — é✓" in text


def test_many_changed_rows_are_counted() -> None:
    """Of a call that changes hundreds of rows a dozen are shown and the others are counted."""
    changes = tuple(RowChange("t", (n,), {"id": n, "v": 0}, {"id": n, "v": 1}) for n in range(300))
    call = AgentCall("all", {}, "c0-0")
    trajectory = _episode(StepTaken(Reply(), Act((call,)), (ToolResult("ok", changes=changes),)))
    lines = printed(partial(render_episode, trajectory))
    assert sum(line.strip().startswith("t ") for line in lines) == 12
    assert "    and 288 more rows" in lines


def test_json_results_are_laid_out() -> None:
    """A result that is JSON breaks between its fields, a long one is cut, and `full` shows all."""
    items = [{"id": number, "name": f"article number {number}"} for number in range(40)]
    text = msgspec.json.encode({"order_id": 7, "items": items}).decode()
    call = AgentCall("get_order", {"order_id": 7, "note": "n" * 100}, "c0-0")
    trajectory = _episode(StepTaken(Reply(), Act((call,)), (ToolResult(text),)))
    lines = printed(partial(render_episode, trajectory), 60)
    assert lines[lines.index("  ← {") : lines.index("  ← {") + 4] == [
        "  ← {",
        '      "order_id": 7,',
        '      "items": [',
        '        {"id": 0, "name": "article number 0"},',
    ]
    assert "    … (45 lines)" in lines
    assert not any('"id": 39' in line for line in lines)
    assert max(map(len, lines)) <= 60
    start = lines.index("  → get_order(")
    assert lines[start + 1] == "      order_id=7,"

    everything = "\n".join(printed(partial(render_episode, trajectory, full=True), 60))
    assert '{"id": 39, "name": "article number 39"}' in everything
    assert everything.count("n" * 20) >= 4
    assert "…" not in everything
