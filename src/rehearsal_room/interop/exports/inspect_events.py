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
from datetime import UTC, datetime
from typing import Any

from rehearsal_room.envpool.core.types import ToolError, ToolResult, ToolSpec
from rehearsal_room.harness.core.events import Ending, Judged, StepTaken
from rehearsal_room.harness.core.messages import AgentCall, FormatError, Message, Usage
from rehearsal_room.harness.dialects.base import result_text
from rehearsal_room.interop.exports.conversation import Conversation, ShownReply
from rehearsal_room.interop.exports.row_patches import patches_of
from rehearsal_room.interop.exports.source import LoggedEpisode

Json = dict[str, Any]
_FAILURES = (Ending.POLICY_ERROR, Ending.WORLD_ERROR, Ending.CANCELLED)
_LIMITS = {
    Ending.STEP_LIMIT: "turn",
    Ending.TOKEN_LIMIT: "token",
    Ending.TIME_LIMIT: "time",
}
_STOPS = {"length": "max_tokens", "stop": "stop", "tool_calls": "tool_calls"}
# Inspect's words for what failed in a call; ours is in the event's metadata.
_ERRORS: dict[ToolError, str] = {"arguments": "parsing", "timeout": "timeout"}


def model_name(policy: str) -> str:
    """A policy in the form of Inspect's models, `provider/model`.

    Example: "openai:gpt-5" -> "openai/gpt-5"; "oracle" -> "rehearsal/oracle"
    """
    provider, found, model = policy.partition(":")
    return f"{provider}/{model}" if found else f"rehearsal/{policy}"


def stamp(at: float) -> str:
    """Unix seconds as ISO 8601 in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat()


class SampleMaker:
    """Makes the sample of one episode. `sample_id` and `epoch` name it in the log."""

    def __init__(self, episode: LoggedEpisode, sample_id: str, epoch: int) -> None:
        self._episode = episode
        self._id, self._epoch = sample_id, epoch
        self._model = model_name(episode.row.policy)
        self._conversation = Conversation(episode.trajectory, episode.world)
        self._message_calls = _calls_of_messages(self._conversation)
        self._end = episode.ended_at or (*episode.replied_at, episode.started_at)[-1]

    def sample(self) -> Json:
        """The whole sample."""
        conversation, row = self._conversation, self._episode.row
        pool = [self._message(index) for index in range(len(conversation.messages))]
        events = list(self._events())
        outputs = [event["output"] for event in events if event["event"] == "model"]
        return {
            **self.summary(),
            "messages": [pool[index] for index in conversation.history_indexes()],
            "output": outputs[-1] if outputs else {"model": self._model, "choices": []},
            "store": {},
            "events": events,
            "attachments": {},
            "events_data": {"messages": pool, "calls": []},
            **({"error": _error(row.error or str(row.ending))} if row.ending in _FAILURES else {}),
            **self._limit(),
        }

    def summary(self) -> Json:
        """What lists of samples show."""
        episode, started = self._episode, self._episode.trajectory.started
        return {
            "id": self._id,
            "epoch": self._epoch,
            "input": started.instruction,
            "target": "",
            "metadata": self._metadata(),
            "scores": {one.judge: score_of(one, self._answer) for one in self._scored()},
            "model_usage": {self._model: usage_of(self._usage())},
            "started_at": stamp(episode.started_at),
            "completed_at": stamp(self._end),
            "total_time": self._end - episode.started_at,
            "working_time": self._end - episode.started_at,
            "uuid": f"{episode.row.episode}-{episode.row.attempt}",
            "turn_count": len(episode.trajectory.steps),
        }

    def listed(self) -> Json:
        """The summary as the log's lists have it."""
        row = self._episode.row
        limit = _LIMITS.get(row.ending) if row.ending is not None else None
        return {
            **self.summary(),
            "completed": row.ending is not None,
            "message_count": sum(1 for _ in self._conversation.history_indexes()),
            **({"error": row.error or str(row.ending)} if row.ending in _FAILURES else {}),
            **({"limit": limit} if limit else {}),
        }

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
            else f"{started.forked_from.run}/{started.forked_from.episode}"
            f"@{started.forked_from.turn}",
        }
        return {name: value for name, value in found.items() if value is not None}

    def _limit(self) -> Json:
        row = self._episode.row
        kind = _LIMITS.get(row.ending) if row.ending is not None else None
        if kind is None:
            return {}
        reached = {
            "turn": float(row.num_steps),
            "token": float(self._usage().completion_tokens),
            "time": row.seconds,
        }
        return {"limit": {"type": kind, "limit": reached[kind], "reason": row.error or kind}}

    # Events -------------------------------------------------------------------------------------

    def _events(self) -> Iterator[Json]:
        episode, span = self._episode, "episode"
        begin = {"id": span, "parent_id": None, "type": "agent", "name": "episode"}
        yield self._event("span_begin", episode.started_at, **begin)
        before = episode.started_at
        for reply, at in zip(self._conversation.replies, episode.replied_at, strict=True):
            yield from self._reply(reply, before, at)
            before = at
        for verdict in self._scored():
            score = score_of(verdict, self._answer)
            yield self._event("score", self._end, score=score, scorer=verdict.judge)
        yield self._event("span_end", self._end, id=span)

    def _reply(self, shown: ShownReply, before: float, at: float) -> Iterator[Json]:
        event = shown.event
        calls_s = event.calls_s if isinstance(event, StepTaken) else 0.0
        replied = max(before, at - calls_s)
        began = max(before, replied - event.policy_s)
        yield self._event(
            "model",
            began,
            model=self._model,
            input=[],
            input_refs=[list(one) for one in shown.window],
            tools=[_tool_info(tool) for tool in shown.tools],
            tool_choice="auto" if isinstance(event, StepTaken) else "none",
            config={},
            output=self._output(shown),
            completed=stamp(replied),
            working_time=event.policy_s,
            metadata=_turn_metadata(shown),
        )
        if not isinstance(event, StepTaken):
            return
        by_user = event.user is not None
        for call, result in zip(event.executed_calls, event.executed_results, strict=False):
            yield from self._call(call, result, replied, at, by_user=by_user)

    def _call(
        self, call: AgentCall, result: ToolResult, began: float, ended: float, *, by_user: bool
    ) -> Iterator[Json]:
        metadata = {
            **({"error": result.error} if result.error else {}),
            **({"by_user": True} if by_user else {}),
            **({"injected": True} if result.injected else {}),
            **({"digest": result.digest} if result.digest else {}),
        }
        yield self._event(
            "tool",
            began,
            type="function",
            id=call.id,
            function=call.name,
            arguments=call.arguments,
            result=result.text,
            error=_tool_error(result),
            completed=stamp(ended),
            metadata=metadata,
        )
        if result.changes:
            yield self._event(
                "state",
                ended,
                changes=patches_of(result.changes),
                metadata={"call": call.id, "tables": True},
            )

    def _output(self, shown: ShownReply) -> Json:
        reply = shown.event.reply
        finish = "tool_calls" if shown.calls and reply.finish == "stop" else reply.finish
        return {
            "model": self._model,
            "choices": [
                {
                    "message": {
                        "id": f"m{shown.turn[0]}",
                        "role": "assistant",
                        "source": "generate",
                        "content": reply.text,
                        "model": self._model,
                        **_tool_calls(shown.calls),
                    },
                    "stop_reason": _STOPS.get(finish, finish),
                }
            ],
            "completion": reply.text,
            "usage": usage_of(reply.usage),
            "time": shown.event.policy_s,
        }

    def _event(self, kind: str, at: float, **fields: Any) -> Json:
        event = {
            "event": kind,
            "timestamp": stamp(at),
            "working_start": at - self._episode.started_at,
            **fields,
        }
        if kind not in ("span_begin", "span_end"):
            event["span_id"] = "episode"
        return {name: value for name, value in event.items() if value is not None}

    def _message(self, index: int) -> Json:
        """A pooled message."""
        message: Message = self._conversation.messages[index]
        found: Json = {"id": f"m{index}", "role": message.role, "content": message.content}
        if message.role == "tool":
            call = self._message_calls.get(message.call_id or "")
            found |= {"tool_call_id": message.call_id}
            found |= {"function": call.name} if call else {}
        if message.role == "assistant":
            found |= {"source": "generate", "model": self._model, **_tool_calls(message.calls)}
        elif index < self._conversation.head[1]:
            found |= {"source": "input"}
        return found


def score_of(verdict: Judged, answer: str) -> Json:
    """A verdict as a score; its value is the task's reward."""
    return {
        "value": verdict.reward,
        "answer": answer,
        "explanation": verdict.reasoning or verdict.proof or _sentence(verdict),
        "metadata": {
            "label": verdict.label,
            "step_rewards": list(verdict.step_rewards),
            "findings": [
                {
                    "name": one.name,
                    "passed": one.passed,
                    "expected": one.expected,
                    "found": one.found,
                }
                for one in verdict.findings
            ],
        },
    }


def usage_of(usage: Usage) -> Json:
    """Token counts; Inspect counts cached ones apart from the others."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "input_tokens_cache_read": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _sentence(verdict: Judged) -> str:
    failed = [one.name for one in verdict.findings if not one.passed]
    return f"{verdict.label}: {'; '.join(failed) or 'every finding holds'}"


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


def _tool_calls(calls: tuple[AgentCall, ...]) -> Json:
    if not calls:
        return {}
    return {
        "tool_calls": [
            {
                "id": call.id,
                "function": call.name,
                "type": "function",
                **(
                    {"arguments": call.arguments}
                    if isinstance(call.arguments, dict)
                    else {"arguments": {}, "parse_error": f"not an object: {call.arguments}"}
                ),
            }
            for call in calls
        ]
    }


def _tool_error(result: ToolResult) -> Json | None:
    if result.error is None:
        return None
    return {"type": _ERRORS.get(result.error, "unknown"), "message": result_text(result)}


def _tool_info(tool: ToolSpec) -> Json:
    schema = {"properties": {}, **tool.schema, "type": "object"}
    return {"name": tool.name, "description": tool.description, "parameters": schema}


def _error(message: str) -> Json:
    return {"message": message, "traceback": "", "traceback_ansi": ""}


def _calls_of_messages(conversation: Conversation) -> dict[str, AgentCall]:
    """The calls that messages answer, by id: the server's own ids where it sent some."""
    return {call.id: call for message in conversation.messages for call in message.calls} | {
        call.id: call for reply in conversation.replies for call in reply.calls
    }
