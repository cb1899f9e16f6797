"""Who may ask the viewer, and that nothing of an agent's text leaves it but as JSON."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import EpisodeEnded, Judged, Label, Record, StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, Reply
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.episode_logs import STATE, WORLD, started, story
from tests.support.viewer_client import HEADERS, viewing

HOST = {"host": "127.0.0.1:4711"}
REFUSED = [
    (HOST, 401),
    ({**HOST, "authorization": "Bearer other"}, 401),
    ({**HOST, "authorization": "Basic secret-token"}, 401),
    ({**HEADERS, "host": "evil.example"}, 403),
    ({**HEADERS, "host": "127.0.0.1:80"}, 403),
    ({**HEADERS, "host": "127.0.0.1:4711.evil.example"}, 403),
    ({**HEADERS, "sec-fetch-site": "cross-site"}, 403),
    ({**HEADERS, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 403),
]


@pytest.mark.parametrize(("headers", "status"), REFUSED)
async def test_strangers_are_refused(headers: dict[str, str], status: int) -> None:
    """Without the right host and the token there is one sentence, and no data."""
    async with viewing() as client:
        answer = await client.ask("/api/runs", headers=headers)

    assert answer.status == status
    assert set(answer.json) == {"error"}


async def test_a_token_in_the_url_is_for_event_streams_only() -> None:
    """A URL may end up in a history or a log; EventSource has no other way."""
    async with viewing() as client:
        answer = await client.ask("/api/runs?token=secret-token", headers=HOST)

    assert answer.status == 401


async def test_every_answer_has_the_headers() -> None:
    """No script but the viewer's own runs, nothing is cached, nobody frames the page."""
    async with viewing() as client:
        answers = [await client.ask(path) for path in ("/", "/api/runs", "/api/nothing")]
        answers.append(await client.ask("/api/runs", headers=HOST))
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"


async def test_large_bodies_are_refused() -> None:
    """A request of more than a mebibyte is not read."""
    async with viewing() as client:
        answer = await client.ask("/api/scratch", method="POST", body={"run": "x" * 2**20})

    assert answer.status == 413


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><svg onload=alert(1)>",
    "\u202etxt.exe\u202c \u2066bidi\u2069",
    "\x1b[31mred\x1b[0m \x00 \x7f",
    "{{constructor.constructor('alert(1)')()}}",
    "javascript:alert(1)",
    "a" * 300_000,
    "[" * 2_000 + "]" * 2_000,
    "\N{REPLACEMENT CHARACTER}\ufeff\u2028\u2029",
)


def _hostile(name: str, text: str) -> Sequence[Record]:
    call = AgentCall(text, {text: text, "deep": [[[[text]]]], "big": 2**63}, "c0-0")
    change = RowChange("orders", (7,), None, {"id": 7, "status": text, "blob": b"\0<"})
    result = ToolResult(text, changes=(change,), digest="e" * 32)
    events = [
        started(),
        StepTaken(Reply(text, (call,)), Act((call,)), (result,)),
        StepTaken(Reply(text), Answer(text)),
        EpisodeEnded("answered", text, 2, STATE),  # type: ignore[arg-type]
        Judged("code", Label.AGENT_ERROR, 0.0, reasoning=text),
    ]
    return story(name, events)


async def test_hostile_texts_are_data(tmp_path: Path) -> None:
    """Replies, names, arguments, results, rows, answers and reasons come out as they went in."""
    async with open_log(tmp_path) as log:
        log.add_scenario(WORLD)
        for number, text in enumerate(HOSTILE):
            for record in _hostile(f"e{number}", text):
                log.append(record)
    base = f"/api/runs/{run_id(tmp_path)}"
    async with viewing(tmp_path) as client:
        for number, text in enumerate(HOSTILE):
            answer = await client.ask(f"{base}/episodes/e{number}")
            assert answer.headers["content-type"] == "application/json"
            found = answer.json
            turn = found["turns"][0]
            assert turn["raw"] == turn["calls"][0]["name"] == turn["results"][0]["text"] == text
            assert turn["calls"][0]["arguments"]["big"] == str(2**63)
            assert turn["calls"][0]["arguments"][text] == text
            after = turn["results"][0]["changes"][0]["after"]
            assert (after["status"], after["blob"]) == (text, "0x003c")
            assert found["answer"] == text
            assert found["verdicts"][0]["reasoning"] == text
        rows = (await client.get(f"{base}/episodes?text=onerror"))["rows"]
        await client.get(base)

    assert [row["episode"] for row in rows] == ["e1"]


async def test_a_file_of_the_user_leads_to_the_page() -> None:
    """A navigation from elsewhere gets the page, which has no data; a script gets nothing."""
    for mode, status in (("navigate", 200), ("no-cors", 403), ("cors", 403)):
        headers = {**HOST, "sec-fetch-site": "cross-site", "sec-fetch-mode": mode}
        async with viewing() as client:
            answer = await client.ask("/", headers=headers)
        assert answer.status == status
