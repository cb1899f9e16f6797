"""A run's records as OpenTelemetry spans, under the conventions for generative AI and MCP.

Each attempt at an episode is one trace:

    invoke_agent openai:gpt-5
    ├── chat gpt-5                 for each reply
    ├── execute_tool get_order     for each call
    └── evaluate code              for each verdict

Ids are hashes of the log's id, the episode, the attempt and the number of turn, call or verdict: a
span that is sent twice has the same id. The conventions (open-telemetry/semantic-conventions-genai)
are still in development, and the official package calls its constants deprecated, so the names are
written here. They define an evaluation as an event, which OTLP has in its log signal; here it is a
span with that event's attributes. What has no name there begins with `rehearsal.`.

Texts (the instruction, replies, arguments, results) are added only with `content`.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import Ending, Judged, StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, FormatError, Reply
from rehearsal_room.harness.dialects.awm import LIST_TOOLS
from rehearsal_room.harness.log.schema import make_storable
from rehearsal_room.harness.profile.timeline import EpisodeSpan, TimelineSpan, TurnSpan, VerdictSpan
from rehearsal_room.scenarios.checks import failed

AttributeValue = str | bool | int | float | tuple[str, ...]
_encode = msgspec.json.Encoder().encode
_ROOT = "episode"
_FAILURES = (
    *(Ending.POLICY_ERROR, Ending.MODEL_REFUSED, Ending.AGENT_FAILED),
    *(Ending.WORLD_ERROR, Ending.CANCELLED),
)


class Span(msgspec.Struct, frozen=True):
    """One span. Times are Unix seconds."""

    trace_id: bytes  # 16 bytes
    span_id: bytes  # 8 bytes
    parent_id: bytes  # empty: it is the root of its trace
    name: str
    is_client: bool  # whether it is a request to a model; else something inside of the harness
    began: float
    ended: float
    attributes: dict[str, AttributeValue]
    error: str | None = None  # why it failed; None: it did not


class SpanMaker:
    """Makes the spans of one run. `log` is the log's id (see harness.settings.run.log_id_of) and
    `run` the run's name; `content` adds texts."""

    def __init__(self, log: str, run: str, *, content: bool = False) -> None:
        self.run = run
        self._log, self._content = log, content

    def spans_of(self, part: TimelineSpan) -> Iterator[Span]:
        """The spans of a part of the run."""
        if isinstance(part, TurnSpan):
            yield self._chat(part)
            yield from self._calls(part)
        elif isinstance(part, EpisodeSpan):
            yield self._agent(part)
        else:
            yield self._evaluation(part)

    def _agent(self, part: EpisodeSpan) -> Span:
        started, ended = part.started, part.event
        attributes = self._common("invoke_agent", part) | {
            "gen_ai.agent.name": started.policy,
            **_model_of(started.policy),
            **_usage(part.prompt_tokens, part.completion_tokens),
            "rehearsal.run": self.run,
            "rehearsal.scenario": started.scenario,
            "rehearsal.task": started.task,
            "rehearsal.group": started.group,
            "rehearsal.member": started.member,
            "rehearsal.seed": started.seed,
            "rehearsal.turns": part.num_turns,
            "rehearsal.kept_turns": started.kept,
        }
        if (source := started.forked_from) is not None:
            attributes["rehearsal.forked_from"] = f"{source.where}@{source.turn}"
        error = None
        if ended is not None:
            attributes["rehearsal.ending"] = str(ended.ending)
            if ended.ending in _FAILURES:
                attributes["error.type"] = str(ended.ending)
                error = ended.error or str(ended.ending)
        if self._content:
            attributes["gen_ai.input.messages"] = _messages("user", started.instruction)
            if ended is not None and ended.answer:
                attributes["gen_ai.output.messages"] = _messages("assistant", ended.answer)
        return self._span(part, _ROOT, f"invoke_agent {started.policy}", attributes, error=error)

    def _chat(self, part: TurnSpan) -> Span:
        reply = part.event.reply
        model = _model_of(part.started.policy)
        attributes = self._common("chat", part) | {
            **model,
            "gen_ai.response.finish_reasons": (reply.finish,),
            **_usage(reply.usage.prompt_tokens, reply.usage.completion_tokens),
            "rehearsal.turn": part.number,
            "rehearsal.requests": reply.attempts,
        }
        if reply.usage.cached_tokens:
            attributes["gen_ai.usage.cache_read.input_tokens"] = reply.usage.cached_tokens
        if reply.weights:
            attributes["rehearsal.weights"] = reply.weights
        what = f"turn/{part.number}"
        if not isinstance(part.event, StepTaken):
            what = f"summary/{part.number}"
            attributes["rehearsal.asked_for"] = "summary"
        elif isinstance(part.event.decision, FormatError):
            attributes["rehearsal.malformed"] = True
        if self._content:
            attributes["gen_ai.output.messages"] = _reply_messages(reply)
        name = f"chat {model['gen_ai.request.model']}"
        return self._span(part, what, name, attributes, ended=part.replied, is_client=True)

    def _calls(self, part: TurnSpan) -> Iterator[Span]:
        event = part.event
        if not isinstance(event, StepTaken) or not isinstance(event.decision, Act):
            return
        made = zip(event.decision.calls, event.results, part.calls(), strict=False)
        for index, (call, result, times) in enumerate(made):
            yield self._call(part, index, call, result, times)

    def _call(
        self,
        part: TurnSpan,
        index: int,
        call: AgentCall,
        result: ToolResult,
        times: tuple[float, float],
    ) -> Span:
        is_list = call.name == LIST_TOOLS and part.started.dialect.startswith("awm")
        attributes = self._common("execute_tool", part) | {
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
            "mcp.method.name": "tools/list" if is_list else "tools/call",
            "rehearsal.turn": part.number,
            "rehearsal.changed_rows": len(result.changes),
        }
        if len(part.calls()) > 1:
            attributes["rehearsal.equal_part_of_turn"] = True  # its own time is not logged
        if result.error is not None:
            attributes["error.type"] = result.error
        if result.asked:
            attributes["rehearsal.server_requests"] = len(result.asked)
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = _json(call.arguments)
            attributes["gen_ai.tool.call.result"] = result.text
        error = None
        if result.error is not None:
            error = result.text if self._content else result.error
        what, name = f"turn/{part.number}/call/{index}", f"execute_tool {call.name}"
        began, ended = times
        return self._span(part, what, name, attributes, began=began, ended=ended, error=error)

    def _evaluation(self, part: VerdictSpan) -> Span:
        judged = part.event
        attributes = self._common("evaluate", part) | {"gen_ai.evaluation.name": judged.judge}
        if judged.label is not None:
            attributes["gen_ai.evaluation.score.label"] = str(judged.label)
        if judged.reward is not None:
            attributes["gen_ai.evaluation.score.value"] = judged.reward
        if judged.share is not None:
            attributes["rehearsal.share"] = judged.share
        if why := _explanation(judged):
            attributes["gen_ai.evaluation.explanation"] = why
        if judged.judgements or judged.asked:
            attributes["rehearsal.cost_usd"] = judged.cost_usd
        if judged.unjudged is not None:
            attributes["error.type"] = "unjudged"
        what, name = f"verdict/{part.seq}", f"evaluate {judged.judge}"
        return self._span(part, what, name, attributes, error=judged.unjudged)

    def _common(self, operation: str, part: TimelineSpan) -> dict[str, AttributeValue]:
        return {
            "gen_ai.operation.name": operation,
            "gen_ai.conversation.id": f"{self.run}/{part.episode}",
            "rehearsal.episode": part.episode,
            "rehearsal.attempt": part.attempt,
        }

    def _span(
        self,
        part: TimelineSpan,
        what: str,
        name: str,
        attributes: dict[str, AttributeValue],
        *,
        began: float | None = None,
        ended: float | None = None,
        error: str | None = None,
        is_client: bool = False,
    ) -> Span:
        """A span of a part; `what` it is in its attempt makes its id. The part's own times are the
        default."""
        attempt = f"{self._log}\0{part.episode}\0{part.attempt}"
        return Span(
            trace_id=_id(attempt, 16),
            span_id=_id(f"{attempt}\0{what}", 8),
            parent_id=b"" if what == _ROOT else _id(f"{attempt}\0{_ROOT}", 8),
            name=name,
            is_client=is_client,
            began=part.began if began is None else began,
            ended=part.ended if ended is None else ended,
            attributes=attributes,
            error=error,
        )


def _id(text: str, size: int) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=size).digest()


def _model_of(policy: str) -> dict[str, AttributeValue]:
    """Provider and model in the name of a policy.

    Example: "openai:gpt-5" -> provider "openai", model "gpt-5"
    Example: "oracle" -> provider "rehearsal", model "oracle"
    """
    provider, separator, model = policy.partition(":")
    if not separator:
        provider, model = "rehearsal", policy
    return {"gen_ai.provider.name": provider, "gen_ai.request.model": model}


def _usage(prompt_tokens: int, completion_tokens: int) -> dict[str, AttributeValue]:
    """Counts of tokens; none where the server reported none."""
    if not prompt_tokens and not completion_tokens:
        return {}
    return {
        "gen_ai.usage.input_tokens": prompt_tokens,
        "gen_ai.usage.output_tokens": completion_tokens,
    }


def _explanation(judged: Judged) -> str:
    """Why a judge gave its label: its reasoning, or which findings failed; empty: not known."""
    if why := judged.unjudged or judged.reasoning or judged.proof:
        return why
    names = [finding.name for finding in failed(judged.findings)]
    return f"failed: {'; '.join(names)}" if names else ""


def _messages(role: str, text: str) -> str:
    return _json([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _reply_messages(reply: Reply) -> str:
    parts: list[Any] = [{"type": "text", "content": reply.text}] if reply.text else []
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        for call in reply.calls
    ]
    return _json([{"role": "assistant", "parts": parts, "finish_reason": reply.finish}])


def _json(value: Any) -> str:
    return _encode(make_storable(value)).decode()
