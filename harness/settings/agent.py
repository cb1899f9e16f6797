"""An agent of the user's own that plays the episodes: a function, a command or an endpoint."""

import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rehearsal_room.harness.core.errors import SettingsError

AgentKind = Literal["function", "command", "url"]
_is_function = re.compile(r"[^\s:]+:[A-Za-z_]\w*(\.\w+)*").fullmatch
_NAME = r"\A[^\x00-\x20/\\:+]{0,60}\Z"


class AgentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The agent, and what its process may use."""

    target: Annotated[
        str,
        Meta(
            description="Agent of your own that plays: MODULE:FUNCTION, a command (one process an "
            "episode), or the URL of an A2A or OpenAI-compatible endpoint. A model that is named, "
            "too, is the one at the URL that the agent gets.",
            extra={"metavar": "AGENT"},
        ),
    ] = ""
    name: Annotated[
        str,
        Meta(
            pattern=_NAME,
            description="Name of the agent in logs, lists and comparisons.",
            extra={"metavar": "NAME", "default": "the function's, the program's or the host's"},
        ),
    ] = ""
    answer: Annotated[
        Literal["output", "tool"],
        Meta(
            description="Source of a command's answer: what it prints (or writes to the file "
            "$REHEARSE_ANSWER), or a call of the tool `give_answer`."
        ),
    ] = "output"
    isolation: Annotated[
        Literal["none", "bubblewrap"],
        Meta(
            description="Isolation of a command. With bubblewrap it may write to its own folder "
            "only, and read programs, libraries and the folder of the run's start."
        ),
    ] = "none"
    env: Annotated[
        tuple[str, ...],
        Meta(
            description="Variable of your environment that a command gets, too; may be repeated.",
            extra={"metavar": "VARIABLE"},
        ),
    ] = ()
    memory_mb: Annotated[
        int,
        Meta(ge=16, description="Memory of a command and its children together, in MiB."),
    ] = 2048
    disk_mb: Annotated[
        int, Meta(ge=1, description="Size of the files in a command's own folder, in MiB.")
    ] = 1024

    @property
    def kind(self) -> AgentKind:
        """What the target is."""
        if self.target.startswith(("http://", "https://")):
            return "url"
        return "function" if _is_function(self.target) else "command"

    @property
    def shown_name(self) -> str:
        """The agent's name in the log.

        Example: "support.agents:refund" -> "refund"; "PATH=bin:$PATH python bot.py" -> "bot.py";
        "http://127.0.0.1:9000/v1" -> "127.0.0.1"
        """
        return self.name or re.sub(r"[^\w.@-]", "_", _short_name(self.kind, self.target))[:60]


def require_agent_formats(dialect: str, history: str) -> None:
    """Refuse formats in which no agent of the user's own is played. Raises SettingsError."""
    if dialect != "native":
        raise SettingsError(
            f"dialect: an agent of your own gets its tools from the world, so the dialect is "
            f"native, not {dialect!r}"
        )
    if history.startswith(("summary", "fold")):
        raise SettingsError(
            "history: an agent of your own cannot be asked for summaries, and folds by itself; "
            "choose last:W, tokens:N or retrieve:K"
        )


_RUNNERS = ("python", "python3", "node", "uv", "run", "npx", "sh", "bash", "env", "exec")


def _short_name(kind: AgentKind, target: str) -> str:
    if kind == "function":
        return target.rpartition(":")[2]
    if kind == "url":
        return target.partition("//")[2].partition("/")[0].partition(":")[0] or "endpoint"
    words = [Path(word).name for word in target.split() if word[0] != "-" and "=" not in word]
    named = [word for word in words if word and word not in _RUNNERS]
    return (named or words or ["command"])[0]
