"""The calls of one ORS episode, answered with server-sent events.

event: task_id        the id under which the client may ask for the same result again
event: end            {"ok": true, "output": {"blocks": […], "metadata": {…}, "reward": null,
                      "finished": false}}, in pieces of 4,096 characters (`chunk`)
event: error          the world broke: the client's session is over
"""

from collections import OrderedDict
from typing import Any
from uuid import uuid4

from starlette.exceptions import HTTPException
from starlette.responses import Response

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.protocols.episodes import WorldVerdict, failed_findings, shown_reason
from rehearsal_room.envpool.protocols.http import text_field
from rehearsal_room.envpool.protocols.sessions import Session
from rehearsal_room.envpool.server.jsonrpc import encode
from rehearsal_room.scenarios.format import Scenario, Task

TERMINAL = {
    "name": "final_answer",
    "arg": "text",
    "description": "Ends the episode with the agent's last message, and gives its reward.",
}
_REASONS = {"unknown_tool": "not_found", "arguments": "input_validation"}
_CHUNK = 4_096  # characters
_REMEMBERED = 8  # results that a client may ask for again
_EVENT_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}

StreamEvent = tuple[str, str]  # its name and its data, without line feeds


class OrsEpisode:
    """The episode of a session."""

    def __init__(self, session: Session, scenario: Scenario, task: Task) -> None:
        self.scenario = scenario
        self.task = task
        self._session = session
        self._is_finished = False
        self._answers: OrderedDict[str, list[StreamEvent]] = OrderedDict()

    async def call(self, asked: dict[str, Any]) -> Response:
        """The response to /call. Raises HTTPException, and NotBegun where there is no world."""
        name, arguments = text_field(asked, "name"), asked.get("input")
        if not isinstance(arguments, dict):
            raise HTTPException(422, "input: expected an object")
        if asked.get("task_id") is not None:
            known = text_field(asked, "task_id")
            return events(*self._answers.get(known, [("error", "unknown task_id")]))
        task_id = uuid4().hex
        try:
            answer = [("task_id", task_id), *_pieces(await self._answer(name, arguments))]
        except PoolError as exc:
            answer = [("task_id", task_id), ("error", " ".join(str(exc).split()))]
        self._answers[task_id] = answer
        if len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)
        return events(*answer)

    async def _answer(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Raises PoolError and SessionError."""
        if self._is_finished:
            why = "the episode is finished; delete this session and create another"
            return {"ok": False, "error": why, "reason": "episode_finished"}
        if name == TERMINAL["name"]:
            return await self._finish(arguments)
        result = await self._session.call(name, arguments)
        if result.error in ("timeout", "internal"):
            raise PoolError(result.text)
        if (reason := _REASONS.get(result.error or "")) is not None:
            return {"ok": False, "error": result.text, "reason": reason}
        return _output(_text_of(result), {"error": result.error} if result.error else {})

    async def _finish(self, arguments: dict[str, Any]) -> dict[str, Any]:
        answer = arguments.get("text", "")
        if not isinstance(answer, str):
            why = "Tool input validation error: text: expected a text"
            return {"ok": False, "error": why, "reason": "input_validation"}
        verdict = await self._session.judge("ors", answer)
        if verdict.reward is None:
            raise PoolError(f"the episode could not be judged: {shown_reason(verdict)}")
        self._is_finished = True
        await self._session.end()
        return _output("The episode is over.", _facts(verdict), reward=verdict.reward)


def events(*found: StreamEvent) -> Response:
    """A response of server-sent events."""
    lines = [f"event: {name}\ndata: {data}\n\n" for name, data in found]
    return Response("".join(lines), headers=_EVENT_STREAM)


def _pieces(value: dict[str, Any]) -> list[StreamEvent]:
    text = encode(value).decode()
    starts = range(0, len(text), _CHUNK)
    return [
        ("end" if start + _CHUNK >= len(text) else "chunk", text[start : start + _CHUNK])
        for start in starts
    ]


def _text_of(result: ToolResult) -> str:
    return f"Error: {result.text}" if result.is_error else result.text


def _output(text: str, metadata: dict[str, Any], *, reward: float | None = None) -> dict[str, Any]:
    output = {
        "blocks": [{"text": text, "detail": None, "type": "text"}],
        "metadata": metadata,
        "reward": reward,
        "finished": reward is not None,
    }
    return {"ok": True, "output": output}


def _facts(verdict: WorldVerdict) -> dict[str, Any]:
    return {
        "label": verdict.label,
        "judge": verdict.judge,
        "failed": failed_findings(verdict),
    }
