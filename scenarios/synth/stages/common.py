"""What the stages of a world share: what is asked for, and what a question is made of."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from scenarios.synth.core.attempts import listed
from scenarios.synth.core.package_files import CLOCK
from scenarios.synth.core.prompt_files import Prompts
from scenarios.synth.core.protocols import Bench, Purpose, Turn
from scenarios.synth.core.world_drafts import Draft, Idea, ToolDraft

_json = msgspec.json.Encoder(order="deterministic").encode


class Sizes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for; the defaults are AWM's medians."""

    tasks: int = 10
    tables: int = 18
    rows: int = 120
    tools: int = 35


class Stage:
    """What the stages share. `name` is the prompt's, too."""

    name = ""

    def __init__(self, idea: Idea, prompts: Prompts) -> None:
        self._idea = idea
        self._prompts = prompts
        self.purpose = Purpose(self.name, idea.key)

    def opening(self) -> tuple[Turn, ...]:
        """The question."""
        return self._prompts.turns(self.name, **self._fields())

    def again(self, problems: str) -> tuple[Turn, ...]:
        """What is said when an answer did not hold."""
        return self._prompts.turns("feedback", problems=problems)

    def _fields(self) -> Mapping[str, object]:
        return {"name": self._idea.name, "description": self._idea.description}


class DraftStage(Stage):
    """A stage that goes on with a draft. `folder` is where its packages are tried out."""

    def __init__(
        self, draft: Draft, prompts: Prompts, sizes: Sizes, bench: Bench, folder: Path
    ) -> None:
        super().__init__(draft.idea, prompts)
        self._draft = draft
        self._sizes = sizes
        self._bench = bench
        self._folder = folder

    def _fields(self) -> Mapping[str, object]:
        brief = self._draft.brief
        return {
            **super()._fields(),
            "user": f"{brief.user.name}, {brief.user.role}, known as {brief.user.id}",
            "policy": brief.policy or "none",
            "tasks": listed(
                [f"{each.id} ({each.kind}): {each.instruction}" for each in brief.tasks]
            ),
            "clock": CLOCK,
            "schema": "\n".join(f"{statement};" for statement in self._draft.schema),
        }


def tools_json(tools: Sequence[ToolDraft]) -> str:
    """The tools as models are shown them."""
    shown: list[Any] = [msgspec.to_builtins(tool) for tool in tools]
    return msgspec.json.format(_json(shown), indent=1).decode()
