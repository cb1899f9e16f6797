"""The common part of a world's stages: the requested sizes, and the fields of their prompts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rehearsal_room.scenarios.core.short_text import shortened
from rehearsal_room.scenarios.synth.core.attempts import bullet_list
from rehearsal_room.scenarios.synth.core.coverage import describe_functions
from rehearsal_room.scenarios.synth.core.package_files import CLOCK
from rehearsal_room.scenarios.synth.core.prompt_files import Prompts
from rehearsal_room.scenarios.synth.core.protocols import (
    CallResult,
    DraftHost,
    PromptMessage,
    RequestPurpose,
)
from rehearsal_room.scenarios.synth.core.world_drafts import (
    ScenarioIdea,
    TaskPlan,
    ToolDraft,
    WorldDraft,
)

_SHOWN_RESULT = 500  # characters of one result


class Sizes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The requested sizes of a world; the defaults are AWM's medians."""

    tasks: int = 10
    tables: int = 18
    rows: int = 120
    tools: int = 35

    def stated(self, name: str) -> str:
        """The range of a size, as prompts state it.

        Example: Sizes(tables=18).stated("tables") -> "about 18 (9 to 27)"
        """
        low, high = self._range(name)
        return f"about {getattr(self, name)} ({low} to {high})"

    def notes(self, name: str, found: int) -> tuple[str, ...]:
        """A note on a size outside of its range; it is not a fault."""
        low, high = self._range(name)
        return () if low <= found <= high else (f"expected {low} to {high} {name}, found {found}",)

    def _range(self, name: str) -> tuple[int, int]:
        size: int = getattr(self, name)
        return max(1, size // 2), size + size // 2


class SynthesisStage:
    """The base of the stages. `name` is also the name of the stage's prompt."""

    name = ""

    def __init__(self, idea: ScenarioIdea, prompts: Prompts) -> None:
        self._idea = idea
        self._prompts = prompts
        self.purpose = RequestPurpose(self.name, idea.key)

    def prompt(self) -> tuple[PromptMessage, ...]:
        """The messages of the first request."""
        return self._prompts.messages(self.name, **self._fields())

    def correction(self, problems: str) -> tuple[PromptMessage, ...]:
        """The messages that report an answer's problems."""
        return self._prompts.messages("feedback", problems=problems)

    def _fields(self) -> Mapping[str, object]:
        return {
            "name": self._idea.name,
            "description": self._idea.description,
            "features": bullet_list(self._idea.features or ["nothing in particular"]),
            "clock": CLOCK,
        }


class DraftStage(SynthesisStage):
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
            "user": f"{plan.user.name} (role {plan.user.role}, id {plan.user.id})",
            "functions": bullet_list(describe_functions(plan) or ["none are named"]),
            "policy": _numbered(plan),
            "tasks": bullet_list(
                [f"{each.id} ({each.kind}): {each.instruction}" for each in plan.tasks]
            ),
            "schema": "\n".join(f"{statement};" for statement in self._draft.schema),
            "data": "\n".join(f"{statement};" for statement in self._draft.data),
        }


def _numbered(plan: TaskPlan) -> str:
    """The rules with the numbers by which tasks name them; else the policy as it was written."""
    lines = [f"{number}. {rule.text}" for number, rule in enumerate(plan.rules, 1)]
    return "\n".join(lines) or plan.policy or "none"


def tools_json(tools: Sequence[ToolDraft]) -> str:
    """The tools in the form that models see: fields and parameters in their order."""
    return msgspec.json.format(msgspec.json.encode(tools), indent=1).decode()


def call_line(result: CallResult) -> str:
    """A call and its result in one line, long results shortened.

    Example: get_order({"order_id":7}) -> Error: There is no order 7.
    """
    arguments = msgspec.json.encode(result.call.arguments).decode()
    text = shortened(result.text, _SHOWN_RESULT)
    return f"{result.call.name}({arguments}) -> {'Error: ' if result.error else ''}{text}"
