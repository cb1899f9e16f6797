"""One episode as a page shows it: turns, calls, changed rows, tokens, verdicts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rehearsal_room.envpool.core.types import ServerRequest, ToolResult, ToolSpec
from rehearsal_room.harness.core.briefings import shown_tools
from rehearsal_room.harness.core.events import (
    AgentOutput,
    AgentSpans,
    EpisodeEnded,
    HistorySummarized,
    Judged,
    ModelAsked,
    StepTaken,
)
from rehearsal_room.harness.core.messages import (
    Act,
    AgentCall,
    Answer,
    FormatError,
    Reply,
    Usage,
    UserTurn,
)
from rehearsal_room.harness.core.span_tree import in_tree_order, subject_of
from rehearsal_room.harness.core.token_bytes import decode_ids, decode_logprobs
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.viewer.reading.lines import EpisodeTableLine
from rehearsal_room.viewer.reading.plain import built, plain
from rehearsal_room.viewer.reading.result_rows import rows_of

Json = dict[str, Any]
TextOf = Callable[[Sequence[int]], str]  # of token ids


def episode_page(
    line: EpisodeTableLine | None,
    trajectory: Trajectory,
    times: Mapping[int, float],
    world: ScenarioSnapshot | None,
    text_of: TextOf | None,
) -> Json:
    """An episode; `line` None: it is in no index. `times` has the time of each turn, `world` is the
    logged scenario (None: the log does not have it), `text_of` reads single tokens (None: the
    tokenizer is not known)."""
    started, ended = trajectory.started, trajectory.ended
    tools = () if world is None else world.tools
    verdict = trajectory.judged[-1] if trajectory.judged else None
    rewards = () if verdict is None else verdict.step_rewards
    known = {tool.name for tool in tools}
    return {
        "line": line,
        "instruction": started.instruction,
        "rules": "" if world is None else world.rules,
        "user_name": "" if world is None else world.user,
        "now": "" if world is None else world.now,
        "tools": tools_of(shown_tools(tools, started.hidden)),
        "policy": started.policy,
        "dialect": started.dialect,
        "history": started.history,
        "seed": started.seed,
        "is_dialogue": started.is_dialogue,
        "forked_from": started.forked_from,
        "own_instruction": None if started.edit is None else plain(started.edit.instruction),
        "kept": started.kept,
        "first_own_turn": trajectory.first_own_turn,
        "turns": [
            _turn(number, step, times.get(number), known, rewards, trajectory, text_of)
            for number, step in enumerate(trajectory.steps)
        ],
        "summaries": [_summary(one) for one in trajectory.summaries],
        "asked": [_asked(one, text_of) for one in trajectory.asked],
        "output": None if trajectory.output is None else _output(trajectory.output),
        "spans": None if trajectory.spans is None else _spans(trajectory.spans),
        "answer": "" if ended is None else plain(ended.answer),
        "ended": None if ended is None else _ended(ended),
        "verdicts": [verdict_of(one) for one in trajectory.judged],
        "log": {
            "start_digest": started.start_digest,
            "end_digest": ended.state.digest if ended and ended.state else None,
        },
    }


def tools_of(tools: Iterable[ToolSpec]) -> list[Json]:
    """Tools with their schemas."""
    return [
        {"name": one.name, "description": one.description, "schema": plain(one.schema)}
        for one in tools
    ]


def result_of(result: ToolResult) -> Json:
    """A result, as rows where it is rows."""
    rows = None if result.error else rows_of(result.text)
    return {
        "text": plain(result.text),
        "error": result.error,
        "rows": None if rows is None else rows.rows,
        "columns": None if rows is None else rows.columns,
        "rows_name": "" if rows is None else rows.name,
        "changes": changes_of(result.changes),
        "digest": result.digest,
        "injected": result.injected,
        "asked": list(map(_server_asked, result.asked)),
    }


def _server_asked(request: ServerRequest) -> Json:
    """What the world's server asked during a call, and what it was answered."""
    params = request.params
    return {
        "method": request.method,
        "said": plain(params.get("message") or params.get("messages")),
        "params": plain(params),
        "answer": plain(request.answer),
        "refusal": request.refusal,
    }


def changes_of(changes: Iterable[RowChange]) -> list[Json]:
    """Changed rows, with the names of the columns that changed."""
    return [
        {
            "table": one.table,
            "key": plain(one.key),
            "before": plain(one.before),
            "after": plain(one.after),
            "columns": changed_columns(one),
        }
        for one in changes
    ]


def changed_columns(change: RowChange) -> list[str]:
    """The columns whose values differ; all of a new or deleted row."""
    before, after = change.before, change.after
    if before is None or after is None:
        return list(after or before or ())
    names = dict.fromkeys((*before, *after))
    return [
        name
        for name in names
        if name not in before or name not in after or repr(before[name]) != repr(after[name])
    ]


def verdict_of(verdict: Judged) -> Json:
    """A verdict with its findings and what models said."""
    return {**built(verdict), "evidence": None}


def _turn(
    number: int,
    step: StepTaken,
    at: float | None,
    known: set[str],
    rewards: Sequence[float],
    trajectory: Trajectory,
    text_of: TextOf | None,
) -> Json:
    decision = step.decision
    calls = decision.calls if isinstance(decision, Act) else ()
    visible, reasoning = split_reasoning(step.reply.text)
    is_own = number >= trajectory.first_own_turn
    return {
        "turn": number,
        "at": at,
        "text": plain(visible),
        "raw": plain(step.reply.text),
        "reasoning": plain(reasoning),
        "calls": _calls(calls, known),
        "results": list(map(result_of, step.results)),
        "format_error": plain(decision.reason) if isinstance(decision, FormatError) else None,
        "answer": plain(decision.text) if isinstance(decision, Answer) else None,
        "user": None if step.user is None else _user(step.user, known),
        "window": _window(number, step),
        "reward": rewards[number] if number < len(rewards) else None,
        "format_reward": step.reward,
        "policy_s": step.policy_s,
        "calls_s": step.calls_s,
        "call_s": step.call_s,
        "user_s": step.user_s,
        "usage": _usage(step.reply.usage),
        "finish": step.reply.finish,
        "attempts": step.reply.attempts,
        "weights": step.reply.weights,
        "tokens": _tokens(step.reply, text_of, trained=is_own),
        "is_kept": not is_own,
        "is_edited": number >= _first_edited(trajectory) and not is_own,
        "fault": None,
    }


def _first_edited(trajectory: Trajectory) -> int:
    """The first turn that somebody wrote by hand for a fork; beyond all turns: there is none."""
    started = trajectory.started
    if started.edit is None or not started.edit.turns or started.forked_from is None:
        return len(trajectory.steps)
    return started.forked_from.turn


def split_reasoning(text: str) -> tuple[str, str]:
    """A reply without its thoughts, and the thoughts.

    Example: "<think>It is late.</think>Done." -> ("Done.", "It is late.")
    """
    before, found, rest = text.partition("<think>")
    if not found:
        thoughts, ended, after = text.partition("</think>")  # the template wrote the beginning
        return (after.strip(), thoughts.strip()) if ended else (text, "")
    thoughts, _, after = rest.partition("</think>")
    return (before + after).strip(), thoughts.strip()


def _calls(calls: Iterable[AgentCall], known: set[str]) -> list[Json]:
    return [
        {
            "id": one.id,
            "name": plain(one.name),
            "arguments": plain(one.arguments),
            "known": not known or one.name in known,
        }
        for one in calls
    ]


def _user(user: UserTurn, known: set[str]) -> Json:
    return {
        "text": plain(user.text),
        "ended": user.ended,
        "calls": _calls(user.calls, known),
        "results": list(map(result_of, user.results)),
        "tools": [tool.name for tool in user.tools],
    }


def _window(number: int, step: StepTaken) -> Json:
    """Which earlier turns the policy was shown, and which had left its window."""
    shown = set(step.recalled)
    return {
        "first_turn": step.first_turn,
        "recalled": list(step.recalled),
        "dropped": [turn for turn in range(min(step.first_turn, number)) if turn not in shown],
        "tokens": step.reply.usage.prompt_tokens or None,
    }


def _usage(usage: Usage) -> Json | None:
    if not (usage.prompt_tokens or usage.completion_tokens):
        return None
    return {
        "prompt": usage.prompt_tokens,
        "cached": usage.cached_tokens,
        "completion": usage.completion_tokens,
    }


def _tokens(reply: Reply, text_of: TextOf | None, *, trained: bool) -> list[Json] | None:
    if not reply.token_ids:
        return None
    ids, logprobs = decode_ids(reply.token_ids), decode_logprobs(reply.logprobs)
    return [
        {
            "id": one,
            "text": None if text_of is None else plain(text_of([one])),
            "logprob": logprobs[index] if index < len(logprobs) else None,
            "trained": trained,
        }
        for index, one in enumerate(ids)
    ]


def _summary(summary: HistorySummarized) -> Json:
    return {
        "turn": summary.turn,
        "text": plain(summary.reply.text),
        "policy_s": summary.policy_s,
        "usage": _usage(summary.reply.usage),
    }


def _asked(asked: ModelAsked, text_of: TextOf | None) -> Json:
    """A request of an agent that asks its model by itself, with the reply."""
    reply = asked.reply
    visible, reasoning = ("", "") if reply is None else split_reasoning(reply.text)
    return {
        "request": asked.request,
        "turn": asked.turn,
        "parent": asked.parent,
        "shared": asked.shared,
        "api": asked.api,
        "first_turn": asked.first_turn,
        "messages": [
            {
                "role": one.role,
                "text": plain(one.content),
                "calls": _calls(one.calls, set()),
                "call_id": plain(one.call_id),
            }
            for one in asked.messages
        ],
        "text": plain(visible),
        "reasoning": plain(reasoning),
        "calls": [] if reply is None else _calls(reply.calls, set()),
        "error": plain(asked.error) or None,
        "seconds": asked.seconds,
        "usage": None if reply is None else _usage(reply.usage),
        "tokens": None if reply is None else _tokens(reply, text_of, trained=True),
    }


def _output(output: AgentOutput) -> Json:
    return {
        "stdout": plain(output.stdout),
        "stderr": plain(output.stderr),
        "status": output.status,
        "left_out": output.left_out,
    }


def _spans(sent: AgentSpans) -> Json:
    """The spans that the agent sent, in the order and with the depths of their tree."""
    first = min((one.began for one in sent.spans), default=0.0)
    return {
        "spans": [
            {
                **built(span),
                "depth": depth,
                "after": span.began - first,
                "seconds": span.seconds,
                "attributes": plain(span.attributes),
                "events": built(span.events),
                "subject": plain(subject_of(span)),
            }
            for depth, span in in_tree_order(sent.spans)
        ],
        "left_out": sent.left_out,
        "num_refused": sent.num_refused,
        "why": plain(sent.why),
    }


def _ended(ended: EpisodeEnded) -> Json:
    return {
        "ending": ended.ending,
        "error": plain(ended.error),
        "seconds": ended.seconds,
        "num_steps": ended.num_steps,
        "findings": [built(one) for one in ended.checked],
    }
