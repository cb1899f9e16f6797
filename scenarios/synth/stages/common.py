"""The common part of a world's stages: the requested sizes, and the fields of their prompts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from scenarios.synth.core.attempts import bullet_list
from scenarios.synth.core.package_files import CLOCK
from scenarios.synth.core.prompt_files import Prompts
from scenarios.synth.core.protocols import DraftHost, PromptMessage, Purpose
from scenarios.synth.core.world_drafts import ScenarioIdea, ToolDraft, WorldDraft

_json = msgspec.json.Encoder(order="deterministic").encode


class Sizes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The requested sizes of a world; the defaults are AWM's medians."""

    tasks: int = 10
    tables: int = 18
    rows: int = 120
    tools: int = 35


class Stage:
    """The base of the stages. `name` is also the name of the stage's prompt."""

    name = ""

    def __init__(self, idea: ScenarioIdea, prompts: Prompts) -> None:
        self._idea = idea
        self._prompts = prompts
        self.purpose = Purpose(self.name, idea.key)

    def prompt(self) -> tuple[PromptMessage, ...]:
        """Return the messages of the first request."""
        return self._prompts.messages(self.name, **self._fields())

    def correction(self, problems: str) -> tuple[PromptMessage, ...]:
        """Return the messages that report an answer's problems."""
        return self._prompts.messages("feedback", problems=problems)

    def _fields(self) -> Mapping[str, object]:
        return {"name": self._idea.name, "description": self._idea.description}


class DraftStage(Stage):
    """A stage that extends a draft. Its packages are written to `folder` and hosted by `host`."""

    def __init__(
        self, draft: WorldDraft, prompts: Prompts, sizes: Sizes, host: DraftHost, folder: Path
    ) -> None:
        super().__init__(draft.idea, prompts)
        self._draft = draft
        self._sizes = sizes
        self._host = host
        self._folder = folder

    def _fields(self) -> Mapping[str, object]:
        plan = self._draft.plan
        return {
            **super()._fields(),
            "user": f"{plan.user.name}, {plan.user.role}, known as {plan.user.id}",
            "policy": plan.policy or "none",
            "tasks": bullet_list(
                [f"{each.id} ({each.kind}): {each.instruction}" for each in plan.tasks]
            ),
            "clock": CLOCK,
            "schema": "\n".join(f"{statement};" for statement in self._draft.schema),
        }


def tools_json(tools: Sequence[ToolDraft]) -> str:
    """Return the tools in the form that models see."""
    values: list[Any] = [msgspec.to_builtins(tool) for tool in tools]
    return msgspec.json.format(_json(values), indent=1).decode()
