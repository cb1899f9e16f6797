"""Users with whom an agent talks, as a task describes them.

A `UserScript` says prepared texts, one after the other, whatever the agent says: the conversations
of benchmarks whose user turns are fixed (BFCL's multi-turn tasks). The task's instruction is the
user's first text; the script has those that follow. A `ModelUser` is played by a model of its own,
which reads what the user wants and knows. A `UserAutomaton` says a line when the agent asks for it:
what it says depends on the agent's words alone (see scenarios.core.automaton).
"""

from typing import Any, Literal

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
    # Whether a call of such a tool is executed, although the agent was not shown it.
    executes_withheld: bool = False
    # Whether an agent that reaches the limit of replies to the last text has ended the talk.
    ends_at_limit: bool = False


class ModelUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="model"):
    """A user whom a model plays. The agent sees neither the prompt nor the user's tools."""

    prompt: str  # the model's system prompt
    tools: tuple[str, ...] = ()  # tools of the world that are the user's alone
    stops: tuple[str, ...] = ()  # words with which it ends the talk
    # What a call of a tool gives that the user does not have; `{name}` is the tool's.
    no_tool: str = "There is no tool {name!r}."
    solution: tuple[ScriptedTurn, ...] = ()  # its turns where the reference solution is played
    # What opens the talk in the agent's name: no agent is asked for it, and the user answers it.
    # Empty: the agent speaks first.
    opening: str = ""


class EarlierWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message that a user's model is shown before the talk."""

    role: Literal["system", "user", "assistant"]  # `user` is the agent, as in the talk
    text: str


class ModelUserWithTool(ModelUser, frozen=True, forbid_unknown_fields=True, tag="model_with_tool"):
    """A user whom a model plays, and who ends the talk by a tool, which is among `tools`.

    The model may call it in its first reply to the agent's words only, and is asked with nothing
    but messages and tools. It hears words without content, and may say such.
    """

    ends_by: str = ""  # the tool
    earlier: tuple[EarlierWords, ...] = ()  # after the prompt: few-shot talks, its own first words


LineKind = Literal["fact", "correction", "change", "pressure"]


class UserLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an automaton says once, and when.

    fact         what only the user knows
    correction   the instruction assumes something wrong, and the agent says so
    change       the user wants something else than before
    pressure     the user insists on what the rules forbid
    """

    id: str
    text: str
    kind: LineKind = "fact"
    # Words or phrases, one of which the agent must say; "deliver*" also stands for longer words.
    # Empty: the user says the line itself, as soon as the agent asks for nothing that it knows.
    asked: tuple[str, ...] = ()
    after: tuple[str, ...] = ()  # ids of lines that must have been said before
    values: tuple[str, ...] = ()  # what nobody may learn before this line: parts of `text`
    calls: tuple[UserCall, ...] = ()  # that the user makes before it says the line


class UserAutomaton(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag="automaton"
):
    """A user who answers questions: a pure function of what the agent says."""

    lines: tuple[UserLine, ...]
    unsure: str = "That's all I can tell you."  # to a question to which no line belongs
    closing: str = "Thank you."  # with which the user ends the talk
    patience: int = 3  # questions without a new answer, after which the user ends the talk
