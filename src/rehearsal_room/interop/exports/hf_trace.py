"""Sessions for the trace viewer of the Hugging Face hub (`--to hf-trace`), in its simple format
(STS): a JSONL file for each episode, a line for the session and then a line for each message.

    {"type": "session", "harness": "rehearsal", "id": "…/e000000", "name": "shop_support: cancel"}
    {"type": "message", "message": {"role": "user", "content": "Please cancel …",
                                    "timestamp": 1700000000000}}

Calls of a turn are `toolCalls` also where the dialect writes them as text. The verdict is in the
session's line, as extra metadata.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import AgentCall
from rehearsal_room.harness.dialects.base import first_thought, result_text, without_thoughts
from rehearsal_room.interop.exports.conversation import EpisodeConversation, ShownReply, spoken
from rehearsal_room.interop.exports.dataset_card import Dataset, make_folder, write_card
from rehearsal_room.interop.exports.lines import encode, write_lines
from rehearsal_room.interop.exports.source import ExportSource, LoggedEpisode

HARNESS = "rehearsal"
_ABOUT = Dataset(
    title="traces of episodes",
    file="*.jsonl",
    tags=("tool-use", "agent-traces", "format:agent-traces"),
    fields=(
        ("type", "`session` in the first line of a file, `message` in the others"),
        (
            "harness, id, name",
            "of the session, with scenario, task, ending, label, reward and share",
        ),
        ("message", "role, content, toolCalls, toolCallId, timestamp (ms), model"),
    ),
)


def write_traces(source: ExportSource, path: Path) -> None:
    """Write a folder with a file for each episode and a dataset card. Raises LogError, OSError."""
    make_folder(path)
    for episode in source.episodes():
        write_lines(path / f"{episode.row.episode}.jsonl", trace_of(source, episode))
    write_card(source, path, _ABOUT)


def trace_of(source: ExportSource, episode: LoggedEpisode) -> Iterator[dict[str, Any]]:
    """The lines of one episode."""
    yield _session(source, episode)
    conversation = EpisodeConversation(episode.trajectory, episode.world)
    first, last = conversation.head
    for message in conversation.messages[first:last]:
        yield _line(message.role, message.content, episode.started_at)
    for reply, at in zip(conversation.replies, episode.replied_at, strict=True):
        yield from _turn(conversation, reply, at, episode.row.policy)


def _session(source: ExportSource, episode: LoggedEpisode) -> dict[str, Any]:
    row, started = episode.row, episode.trajectory.started
    return {
        "type": "session",
        "harness": HARNESS,
        "id": f"{source.log_id}/{row.episode}",
        "name": f"{row.scenario}: {row.task}",
        "scenario": row.scenario,
        "task": row.task,
        "policy": row.policy,
        "seed": started.seed,
        "ending": row.ending,
        "label": row.label,
        "reward": row.reward,
        "share": row.share,
        "scenario_digest": row.scenario_digest,
    }


def _turn(
    conversation: EpisodeConversation, reply: ShownReply, at: float, policy: str
) -> Iterator[dict[str, Any]]:
    """The assistant's message, then the results of its calls or what was said to it."""
    event = reply.event
    first, last = reply.turn
    assistant, *others = conversation.messages[first:last]
    calls = reply.calls
    yield _line(
        "assistant",
        spoken(assistant.content) if calls else without_thoughts(assistant.content),
        at,
        model=policy,
        **_present(
            reasoningContent=first_thought(assistant.content),
            toolCalls=[_call(call) for call in calls],
        ),
    )
    if not isinstance(event, StepTaken):
        return
    if not calls:
        for message in others:
            yield _line(message.role, message.content, at)
    for call, result in zip(calls, event.results, strict=False):
        yield _line("tool", result_text(result), at, toolCallId=call.id)


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _call(call: AgentCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "function": {"name": call.name, "arguments": encode(call.arguments).decode()},
    }


def _line(role: str, content: str, at: float, **extra: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, **extra, "timestamp": round(at * 1000)}
    return {"type": "message", "message": message}
