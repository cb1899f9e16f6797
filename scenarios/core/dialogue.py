"""A user who says prepared texts, one after the other, whatever the agent says.

A script describes the conversations of benchmarks whose user turns are fixed (BFCL's multi-turn
tasks). The task's instruction is the user's first text; the script has those that follow.
"""

import msgspec


class ScriptedTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the user says next, and the tools that the agent has from then on."""

    text: str
    tools: tuple[str, ...] = ()  # names of tools of the world that were withheld until now


class UserScript(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="script"):
    """The user's texts after the instruction. When all are said, the user ends the talk."""

    turns: tuple[ScriptedTurn, ...] = ()
    # Tools of the world that the agent does not have at the start and may get by a turn.
    withheld: tuple[str, ...] = ()
