"""One episode as a sample of Inspect AI: messages, events, scores.

A model event has the range of the pooled messages that the agent saw (`input_refs`), so the size of
a sample is linear in its turns. Each call is a tool event; the rows that it changed follow as a
state event, a JSON patch of tables and rows, which the viewer shows as a diff.

    span_begin episode
        model            input_refs [[0, 2]]
        tool             cancel_order {"order_id": 1042}
        state            replace /orders/1042
        model            input_refs [[0, 4]]
        score            code: 1.0
    span_end

Inspect has no field for token ids, so they are left out (`--to atif` has them).
"""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from inspect_ai.event import (
    Event,
    ModelEvent,
    ScoreEvent,
    SpanBeginEvent,
    SpanEndEvent,
    StateEvent,
    ToolEvent,
)
from inspect_ai.log import EvalError, EvalSample, EvalSampleLimit
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall, ToolCallError, ToolInfo, ToolParams

from rehearsal_room.envpool.core.types import ToolErrorKind, ToolResult, ToolSpec
from rehearsal_room.harness.core.events import Ending, Judged, StepTaken
from rehearsal_room.harness.core.messages import AgentCall, FormatError, Usage
from rehearsal_room.harness.dialects.base import result_text
from rehearsal_room.interop.exports.conversation import EpisodeConversation, ShownReply
from rehearsal_room.interop.exports.inspect_names import model_name, moment, stamp
from rehearsal_room.interop.exports.row_patches import patches_of
from rehearsal_room.interop.exports.source import LoggedEpisode
from rehearsal_room.scenarios.checks import failed

Json = dict[str, Any]
_FAILURES = (
    *(Ending.POLICY_ERROR, Ending.MODEL_REFUSED, Ending.AGENT_FAILED),
    *(Ending.WORLD_ERROR, Ending.CANCELLED),
)
_LIMITS: dict[Ending, Literal["turn", "token", "time"]] = {
    Ending.STEP_LIMIT: "turn",
    Ending.TOKEN_LIMIT: "token",
    Ending.TIME_LIMIT: "time",
}
_STOPS = {"length": "max_tokens", "stop": "stop", "tool_calls": "tool_calls"}
# Inspect's words for what failed in a call; ours is in the event's metadata.
_ERRORS: dict[ToolErrorKind, str] = {"arguments": "parsing", "timeout": "timeout"}
_SPAN = "episode"


class SampleMaker:
    """Makes the sample of one episode. `sample_id` and `epoch` name it in the log."""

    def __init__(self, episode: LoggedEpisode, sample_id: str, epoch: int) -> None:
        self._episode = episode
        self._id, self._epoch = sample_id, epoch
        self._model = model_name(episode.row.policy)
        self._conversation = EpisodeConversation(episode.trajectory, episode.world)
        self._message_calls = _calls_of_messages(self._conversation)
        self._end = episode.ended_at or (*episode.replied_at, episode.started_at)[-1]
        self._shown: tuple[tuple[ToolSpec, ...], list[ToolInfo]] | None = None
        self._messages = list(map(self._message, range(len(self._conversation.messages))))

    def sample(self) -> EvalSample:
        """The whole sample."""
        episode, row = self._episode, self._episode.row
        events = list(self._events())
        outputs = [event.output for event in events if isinstance(event, ModelEvent)]
        failed = row.ending in _FAILURES
        return EvalSample(
            id=self._id,
            epoch=self._epoch,
            input=episode.trajectory.started.instruction,
            target="",
            metadata=self._metadata(),
            scores={one.judge: score_of(one, self._answer) for one in self._scored()},
            messages=[self._messages[index] for index in self._conversation.history_indexes()],
            output=outputs[-1] if outputs else ModelOutput(model=self._model),
            events=events,
            events_data={"messages": self._messages, "calls": []},
            model_usage={self._model: usage_of(self._usage())},
            started_at=stamp(episode.started_at),
            completed_at=stamp(self._end),
            total_time=self._end - episode.started_at,
            working_time=self._end - episode.started_at,
            uuid=f"{row.episode}-{row.attempt}",
            turn_count=len(episode.trajectory.steps),
            error=_error(row.error or str(row.ending)) if failed else None,
            limit=self._limit(),
        )

    @property
    def _answer(self) -> str:
        ended = self._episode.trajectory.ended
        return ended.answer if ended else ""

    def _scored(self) -> list[Judged]:
        """The verdicts with a reward: one that could not judge is not a score of zero."""
        return [one for one in self._episode.trajectory.judged if one.reward is not None]

    def _usage(self) -> Usage:
        own = self._conversation.replies[self._episode.trajectory.num_context :]
        usages = [reply.event.reply.usage for reply in own]
        return Usage(
            sum(one.prompt_tokens for one in usages),
            sum(one.completion_tokens for one in usages),
            sum(one.cached_tokens for one in usages),
        )

    def _metadata(self) -> Json:
        row, started = self._episode.row, self._episode.trajectory.started
        verdict = self._episode.verdict
        found = {
            "episode": row.episode,
            "attempt": row.attempt,
            "scenario": row.scenario,
            "task": row.task,
            "group": row.group,
            "member": row.member,
            "seed": started.seed,
            "policy": row.policy,
            "dialect": started.dialect,
            "history": started.history,
            "tags": list(row.tags),
            "ending": row.ending,
            "label": row.label,
            "unjudged": None if verdict is None else verdict.unjudged,
            "scenario_digest": row.scenario_digest,
            "start_digest": started.start_digest,
            "forked_from": None
            if started.forked_from is None
            else f"{started.forked_from.where}@{started.forked_from.turn}",
        }
        return {name: value for name, value in found.items() if value is not None}

    def _limit(self) -> EvalSampleLimit | None:
        row = self._episode.row
        kind = _LIMITS.get(row.ending) if row.ending is not None else None
        if kind is None:
            return None
        reached = {
            "turn": float(row.num_steps),
            "token": float(self._usage().completion_tokens),
            "time": row.seconds,
        }
        return EvalSampleLimit(type=kind, limit=reached[kind], reason=row.error or kind)

    # Events -------------------------------------------------------------------------------------

    def _events(self) -> Iterator[Event]:
        episode = self._episode
        start, end = self._at(episode.started_at), self._at(self._end)
        yield _plain(SpanBeginEvent(id=_SPAN, type="agent", name="episode", **start))
        before = episode.started_at
        for reply, at in zip(self._conversation.replies, episode.replied_at, strict=True):
            yield from map(_plain, self._reply(reply, before, at))
            before = at
        for verdict in self._scored():
            score = score_of(verdict, self._answer)
            yield _plain(ScoreEvent(score=score, scorer=verdict.judge, span_id=_SPAN, **end))
        yield _plain(SpanEndEvent(id=_SPAN, **end))

    def _at(self, at: float) -> Json:
        """The times of an event."""
        return {"timestamp": moment(at), "working_start": at - self._episode.started_at}

    def _reply(self, shown: ShownReply, before: float, at: float) -> Iterator[Event]:
        event = shown.event
        calls_s = event.calls_s if isinstance(event, StepTaken) else 0.0
        replied = max(before, at - calls_s)
        began = max(before, replied - event.policy_s)
        yield ModelEvent(
            model=self._model,
            input=[],
            input_refs=list(shown.window),
            tools=self._infos(shown.tools),
            tool_choice="auto" if isinstance(event, StepTaken) else "none",
            config=GenerateConfig(),
            output=self._output(shown),
            completed=moment(replied),
            working_time=event.policy_s,
            metadata=_turn_metadata(shown),
            span_id=_SPAN,
            **self._at(began),
        )
        if not isinstance(event, StepTaken):
            return
        by_user = event.user is not None
        for call, result in zip(event.executed_calls, event.executed_results, strict=False):
            yield from self._call(call, result, replied, at, by_user=by_user)

    def _infos(self, tools: tuple[ToolSpec, ...]) -> list[ToolInfo]:
        """The tools in Inspect's form, which is made once for all turns that show the same."""
        if self._shown is None or self._shown[0] is not tools:
            self._shown = tools, list(map(_tool_info, tools))
        return self._shown[1]

    def _call(
        self, call: AgentCall, result: ToolResult, began: float, ended: float, *, by_user: bool
    ) -> Iterator[Event]:
        metadata = {
            **({"error": result.error} if result.error else {}),
            **({"by_user": True} if by_user else {}),
            **({"injected": True} if result.injected else {}),
            **({"asked": msgspec.to_builtins(result.asked)} if result.asked else {}),
            **({"digest": result.digest} if result.digest else {}),
        }
        yield ToolEvent(
            id=call.id,
            function=call.name,
            arguments=call.arguments,
            result=result.text,
            error=_tool_error(result),
            completed=moment(ended),
            metadata=metadata,
            span_id=_SPAN,
            **self._at(began),
        )
        if result.changes:
            yield StateEvent(
                changes=patches_of(result.changes),
                metadata={"call": call.id, "tables": True},
                span_id=_SPAN,
                **self._at(ended),
            )

    def _output(self, shown: ShownReply) -> ModelOutput:
        reply = shown.event.reply
        finish = "tool_calls" if shown.calls and reply.finish == "stop" else reply.finish
        message = ChatMessageAssistant(
            id=f"m{shown.turn[0]}",
            source="generate",
            content=reply.text,
            model=self._model,
            tool_calls=_tool_calls(shown.calls),
        )
        return ModelOutput(
            model=self._model,
            choices=[ChatCompletionChoice(message=message, stop_reason=_STOPS.get(finish, finish))],
            usage=usage_of(reply.usage),
            time=shown.event.policy_s,
        )

    def _message(self, index: int) -> ChatMessage:
        message = self._conversation.messages[index]
        source = "input" if index < self._conversation.head[1] else None
        named: Json = {"id": f"m{index}", "content": message.content}
        match message.role:
            case "system":
                return ChatMessageSystem(**named, source=source)
            case "user":
                return ChatMessageUser(**named, source=source)
            case "assistant":
                return ChatMessageAssistant(
                    **named,
                    source="generate",
                    model=self._model,
                    tool_calls=_tool_calls(message.calls),
                )
        call = self._message_calls.get(message.call_id or "")
        return ChatMessageTool(
            **named,
            source=source,
            tool_call_id=message.call_id,
            function=None if call is None else call.name,
        )


def _plain(event: Event) -> Event:
    """The event without Inspect's random id: equal logs give equal samples."""
    event.uuid = None
    return event


def score_of(verdict: Judged, answer: str) -> Score:
    """A verdict as a score; its value is the task's reward."""
    return Score(
        value=verdict.reward,
        answer=answer,
        explanation=verdict.reasoning or verdict.proof or _sentence(verdict),
        metadata={
            "label": verdict.label,
            "share": verdict.share,
            "step_rewards": list(verdict.step_rewards),
            "findings": [
                {
                    "name": one.name,
                    "passed": one.passed,
                    "expected": one.expected,
                    "found": one.found,
                    "share": one.share,
                    "weight": one.weight,
                }
                for one in verdict.findings
            ],
        },
    )


def usage_of(usage: Usage) -> ModelUsage:
    """Token counts; Inspect counts cached ones apart from the others."""
    return ModelUsage(
        input_tokens=usage.prompt_tokens - usage.cached_tokens,
        input_tokens_cache_read=usage.cached_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
    )


def _sentence(verdict: Judged) -> str:
    names = [one.name for one in failed(verdict.findings)]
    return f"{verdict.label}: {'; '.join(names) or 'every finding holds'}"


def _turn_metadata(shown: ShownReply) -> Json | None:
    event = shown.event
    found: Json = {
        "turn": shown.number,
        **({"context": True} if shown.is_context else {}),
        **({"weights": event.reply.weights} if event.reply.weights else {}),
    }
    if not isinstance(event, StepTaken):
        return found | {"summary": True}
    if isinstance(event.decision, FormatError):
        found["format_error"] = event.decision.reason
    if event.reward is not None:
        found["reward"] = event.reward
    return found


def _tool_calls(calls: tuple[AgentCall, ...]) -> list[ToolCall] | None:
    return list(map(_tool_call, calls)) or None


def _tool_call(call: AgentCall) -> ToolCall:
    if isinstance(call.arguments, dict):
        return ToolCall(id=call.id, function=call.name, arguments=call.arguments)
    why = f"not an object: {call.arguments}"
    return ToolCall(id=call.id, function=call.name, arguments={}, parse_error=why)


def _tool_error(result: ToolResult) -> ToolCallError | None:
    if result.error is None:
        return None
    return ToolCallError(_ERRORS.get(result.error, "unknown"), result_text(result))


def _tool_info(tool: ToolSpec) -> ToolInfo:
    schema = {"properties": {}, **tool.schema, "type": "object"}
    return ToolInfo(
        name=tool.name,
        description=tool.description,
        parameters=ToolParams.model_validate(schema),
    )


def _error(message: str) -> EvalError:
    return EvalError(message=message, traceback="", traceback_ansi="")


def _calls_of_messages(conversation: EpisodeConversation) -> dict[str, AgentCall]:
    """The calls that messages answer, by id: the server's own ids where it sent some."""
    return {call.id: call for message in conversation.messages for call in message.calls} | {
        call.id: call for reply in conversation.replies for call in reply.calls
    }
