"""Chats for supervised training (`--to sft`): one a line, with the whole history whatever the run's
limit was.

    {"episode": "e000000", "scenario": "shop_support", "task": "cancel-pending",
     "messages": [{"role": "system", "content": "You act ..."}, ...],
     "tools": "[{\\"type\\": \\"function\\", ...}]"}

`messages` has the chat format of OpenAI and Hugging Face. `tools` is JSON in a text, as TRL takes
it: as objects, Arrow would merge the schemas of all tools into one, with nulls.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.harness.chat.wire import wire_message, wire_tool
from rehearsal_room.harness.core.messages import Message
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.interop.exports.conversation import EpisodeConversation
from rehearsal_room.interop.exports.dataset_card import Dataset, make_folder, write_card
from rehearsal_room.interop.exports.lines import encode, write_lines
from rehearsal_room.interop.exports.source import ExportSource

Chat = dict[str, Any]
_FIELDS = (
    ("episode, scenario, task", "the episode in the run, its world and task"),
    ("messages", "the chat: system, user, assistant and tool messages"),
    ("tools", "JSON in a text: the tools of the request; left out where the messages list them"),
)


def write_chats(source: ExportSource, path: Path) -> None:
    """Write the chats: as one file where the path ends in `.jsonl`, else as a folder with a dataset
    card. Raises LogError and OSError."""
    if path.suffix == ".jsonl":
        write_lines(path, chats_of(source))
        return
    about = Dataset(
        title="chats for supervised training",
        file="chats.jsonl",
        tags=("tool-use", "sft"),
        fields=_FIELDS,
        note="Assistant messages with `weight` 0 are context from a forked episode; do not train "
        "on them.",
    )
    make_folder(path)
    write_lines(path / about.file, chats_of(source))
    write_card(source, path, about)


def chats_of(source: ExportSource) -> Iterator[Chat]:
    """The chat of each episode."""
    for episode in source.episodes():
        row = episode.row
        chat = chat_of(episode.trajectory, episode.world)
        yield {"episode": row.episode, "scenario": row.scenario, "task": row.task, **chat}


def chat_of(trajectory: Trajectory, world: ScenarioSnapshot) -> Chat:
    """An episode as a chat in its own dialect: `messages`, and `tools` where the requests had them.

    The assistant's messages in the turns that a fork keeps have `"weight": 0`, as in OpenAI's
    fine-tuning format: they are context, and not learned again.

    Example: {"messages": [{"role": "system", "content": "You act ..."}, ...]}
    """
    conversation = EpisodeConversation(trajectory, world)
    messages: list[dict[str, Any]] = [_written(message) for message in conversation.history()]
    replies = [message for message in messages if message["role"] == "assistant"]
    for message in replies[: trajectory.first_own_turn]:
        message["weight"] = 0
    chat: Chat = {"messages": messages}
    if tools := conversation.tools:
        chat["tools"] = encode([wire_tool(tool) for tool in tools]).decode()
    return chat


def _written(message: Message) -> dict[str, Any]:
    """A message with what a server sent beside its text and calls, as it came. A thought stays in
    the text."""
    written: dict[str, Any] = msgspec.to_builtins(wire_message(message))
    for call, sent in zip(message.calls, written.get("tool_calls", ()), strict=False):
        fields = dict(call.fields or {})
        sent["function"] |= fields.pop("function", {})
        sent |= fields
    return written | (message.fields or {})
