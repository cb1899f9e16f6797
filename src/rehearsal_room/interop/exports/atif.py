"""Trajectories of Harbor (`--to atif`): the Agent Trajectory Interchange Format, version 1.8.

One document for each episode: system prompt and task, then a step for each reply with its calls,
their results, token counts, and where they were logged the exact token ids and log-probabilities.
`prompt_token_ids` is the whole prompt of the step, as the format wants it. Turns that a fork keeps
are `is_copied_context`: they are not trained again.

The format has no field for worlds, row changes and verdicts: they are in `extra`, under the key
`rehearsal`. So `rehearse import atif` makes the same episode of the document.
"""

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.chat.wire import wire_tool
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import AgentCall, FormatError, Reply, UserTurn
from rehearsal_room.harness.core.token_bytes import decode_ids, decode_logprobs
from rehearsal_room.harness.dialects.base import result_text
from rehearsal_room.harness.log.outputs import write_output
from rehearsal_room.harness.log.schema import write_atomically
from rehearsal_room.interop.exports.conversation import EpisodeConversation, ShownReply
from rehearsal_room.interop.exports.dataset_card import make_folder
from rehearsal_room.interop.exports.lines import encode, write_lines
from rehearsal_room.interop.exports.source import ExportSource, LoggedEpisode, asks_no_model
from rehearsal_room.scenarios.distribution import version

SCHEMA_VERSION = "ATIF-v1.8"
KEY = "rehearsal"  # of our fields in `extra`
_LEAST_LOGPROB = -9999.0  # for -inf, which JSON does not have
Json = dict[str, Any]


def write_atif(source: ExportSource, path: Path) -> None:
    """Write the documents: as lines of one file where the path ends in `.jsonl`, as one document
    where it ends in `.json`, else as a folder of documents. Raises LogError, SettingsError and
    OSError."""
    documents = (
        (episode.row.episode, document_of(source, episode)) for episode in source.episodes()
    )
    if path.suffix == ".jsonl":
        write_lines(path, (document for _, document in documents))
    elif path.suffix == ".json":
        if len(source.rows) != 1:
            raise SettingsError(
                f"{path}: a .json file has one trajectory, and these are {len(source.rows)}; name"
                " a .jsonl file or a folder"
            )
        write_output(path, encode(next(documents)[1]))
    else:
        make_folder(path)
        for episode, document in documents:
            write_atomically(path / f"{episode}.json", encode(document))


def document_of(source: ExportSource, episode: LoggedEpisode) -> Json:
    """The document of one episode."""
    conversation = EpisodeConversation(episode.trajectory, episode.world)
    steps = [
        {"step_id": number, **step}
        for number, step in enumerate(_steps(conversation, episode), start=1)
    ]
    usages = [reply.event.reply.usage for reply in conversation.replies if not reply.is_context]
    row = episode.row
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": source.log_id,
        "trajectory_id": f"{source.log_id}/{row.episode}",
        "agent": {
            "name": row.policy,
            "version": version(),
            **({} if (model := _model(row.policy)) is None else {"model_name": model}),
            "tool_definitions": [wire_tool(tool) for tool in conversation.briefing.tools],
        },
        "steps": steps,
        "final_metrics": {
            "total_prompt_tokens": sum(one.prompt_tokens for one in usages),
            "total_completion_tokens": sum(one.completion_tokens for one in usages),
            "total_cached_tokens": sum(one.cached_tokens for one in usages),
            "total_steps": len(steps),
            "extra": {"reward": row.reward, "label": row.label},
        },
        "extra": {KEY: _episode_facts(source, episode)},
    }


def _episode_facts(source: ExportSource, episode: LoggedEpisode) -> Json:
    row, trajectory = episode.row, episode.trajectory
    started, verdict = trajectory.started, episode.verdict
    return {
        "run": source.run,
        "episode": row.episode,
        "attempt": row.attempt,
        "scenario": row.scenario,
        "task": row.task,
        "instruction": started.instruction,
        "group": row.group,
        "member": row.member,
        "group_size": started.group_size,
        "seed": started.seed,
        "dialect": started.dialect,
        "history": started.history,
        "scenario_digest": row.scenario_digest,
        "start_digest": started.start_digest,
        "end_digest": _end_digest(episode),
        "tags": list(row.tags),
        "is_dialogue": started.is_dialogue,
        "hidden": list(started.hidden),
        "forked_from": started.forked_from,
        "ending": row.ending,
        "error": row.error,
        "answer": trajectory.ended.answer if trajectory.ended else "",
        "judge": row.judge,
        "label": row.label,
        "reward": row.reward,
        "share": row.share,
        "step_rewards": list(verdict.step_rewards) if verdict else [],
        "findings": list(verdict.findings) if verdict else [],
        "unjudged": row.unjudged,
    }


def _end_digest(episode: LoggedEpisode) -> str | None:
    ended = episode.trajectory.ended
    return ended.state.digest if ended and ended.state else None


def _steps(conversation: EpisodeConversation, episode: LoggedEpisode) -> Iterator[Json]:
    first, last = conversation.head
    for message in conversation.messages[first:last]:
        source = "system" if message.role == "system" else "user"
        yield {"timestamp": _time(episode.started_at), "source": source, "message": message.content}
    prompts = episode.trajectory.prompts()
    for shown, at, prompt in zip(conversation.replies, episode.replied_at, prompts, strict=True):
        yield _agent_step(shown, at, prompt, episode.row.policy)
        event = shown.event
        if isinstance(event, StepTaken) and event.user is not None:
            yield _user_step(event.user, at)


def _agent_step(shown: ShownReply, at: float, prompt: bytes, policy: str) -> Json:
    event = shown.event
    reply = event.reply
    has_model = not asks_no_model(policy) or bool(reply.token_ids)
    step: Json = {
        "timestamp": _time(at),
        "source": "agent",
        "message": reply.text,
        "llm_call_count": 1 if has_model else 0,
        "extra": {KEY: _reply_facts(shown)},
    }
    if shown.calls:
        step["tool_calls"] = [_tool_call(call) for call in shown.calls]
    if results := _results(shown):
        step["observation"] = {"results": results}
    if has_model:
        step["metrics"] = _metrics(reply, prompt)
    if shown.is_context:
        step["is_copied_context"] = True
    return step


def _reply_facts(shown: ShownReply) -> Json:
    """What the format has no field for."""
    event = shown.event
    reply = event.reply
    facts: Json = {"turn": shown.number, "finish": reply.finish, "first_turn": event.first_turn}
    if not isinstance(event, StepTaken):
        return facts | {"summary": True}
    if isinstance(event.decision, FormatError):
        facts["format_error"] = event.decision.reason
    if event.reward is not None:
        facts["reward"] = event.reward
    if event.recalled:
        facts["recalled"] = list(event.recalled)
    if reply.calls and reply.calls != shown.calls:
        facts["sent_calls"] = [
            {"name": call.name, "arguments": call.arguments, "id": call.id} for call in reply.calls
        ]
    return facts


def _tool_call(call: AgentCall) -> Json:
    arguments = call.arguments
    found: Json = {"tool_call_id": call.id, "function_name": call.name}
    if isinstance(arguments, dict):
        return found | {"arguments": arguments}
    return found | {"arguments": {}, "extra": {KEY: {"arguments": arguments}}}


def _results(shown: ShownReply) -> list[Json]:
    event = shown.event
    if not isinstance(event, StepTaken):
        return []
    if isinstance(event.decision, FormatError):
        return [{"content": event.decision.reason}]
    return [
        {"source_call_id": call.id, "content": result_text(result), **_result_extra(result)}
        for call, result in zip(shown.calls, event.results, strict=False)
    ]


def _result_extra(result: ToolResult) -> Json:
    facts: Json = {
        **({"error": result.error} if result.error else {}),
        **({"digest": result.digest} if result.digest else {}),
        **({"changes": result.changes} if result.changes else {}),
        **({"injected": True} if result.injected else {}),
        **({"asked": result.asked} if result.asked else {}),
    }
    return {"extra": {KEY: facts}} if facts else {}


def _user_step(user: UserTurn, at: float) -> Json:
    """What the user of a dialogue says, and did before."""
    facts: Json = {
        "ended": user.ended,
        "calls": [{"name": call.name, "arguments": call.arguments} for call in user.calls],
        "results": [{"text": one.text, "error": one.error} for one in user.results],
        "tools": [wire_tool(tool) for tool in user.tools],
    }
    return {
        "timestamp": _time(at),
        "source": "user",
        "message": user.text,
        "extra": {KEY: {name: value for name, value in facts.items() if value}},
    }


def _metrics(reply: Reply, prompt: bytes) -> Json:
    usage = reply.usage
    found: Json = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
    }
    if prompt:
        found["prompt_token_ids"] = decode_ids(prompt).tolist()
    if reply.token_ids:
        found["completion_token_ids"] = decode_ids(reply.token_ids).tolist()
    if reply.logprobs:
        found["logprobs"] = list(_finite(decode_logprobs(reply.logprobs)))
    if reply.weights:
        found["extra"] = {"weights": reply.weights}
    return found


def _finite(values: Iterable[float]) -> Iterator[float]:
    return (value if math.isfinite(value) else _LEAST_LOGPROB for value in values)


def _model(policy: str) -> str | None:
    """The model of a policy such as `openai:gpt-5`; None: it names none."""
    return policy.partition(":")[2] or None


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
