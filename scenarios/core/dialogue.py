"""Users with whom an agent talks, as a task describes them.

A `UserScript` says prepared texts, one after the other, whatever the agent says: the conversations
of benchmarks whose user turns are fixed (BFCL's multi-turn tasks). The task's instruction is the
user's first text; the script has those that follow. A `ModelUser` is played by a model of its own,
which reads what the user wants and knows.
"""

from typing import Any

import msgspec


class UserCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that the user makes with a tool of its own."""

    name: str
    arguments: dict[str, Any] = {}


class ScriptedTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the user says next, and the tools that the agent has from then on."""

    text: str
    tools: tuple[str, ...] = ()  # names of tools of the world that were withheld until now
    calls: tuple[UserCall, ...] = ()  # that the user makes before it speaks


class UserScript(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="script"):
    """The user's texts after the instruction. When all are said, the user ends the talk."""

    turns: tuple[ScriptedTurn, ...] = ()
    # Tools of the world that the agent does not have at the start and may get by a turn.
    withheld: tuple[str, ...] = ()


class ModelUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="model"):
    """A user whom a model plays. The agent sees neither the prompt nor the user's tools."""

    prompt: str  # the model's system prompt
    tools: tuple[str, ...] = ()  # tools of the world that are the user's alone
    stops: tuple[str, ...] = ()  # words with which it ends the talk
    solution: tuple[ScriptedTurn, ...] = ()  # its turns where the reference solution is played
