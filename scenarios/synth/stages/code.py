"""The stage that writes the tools. They are hosted, compared with the specification, and called."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.synth.core.answer_parsing import UnreadableAnswer, code_of, json_of
from rehearsal_room.scenarios.synth.core.attempts import CheckedAnswer
from rehearsal_room.scenarios.synth.core.code_rules import TOOL_IMPORTS, code_faults
from rehearsal_room.scenarios.synth.core.package_files import package_texts, write_package
from rehearsal_room.scenarios.synth.core.prompt_files import Prompts
from rehearsal_room.scenarios.synth.core.protocols import (
    CallResult,
    DraftHost,
    HostedDraft,
    ProbeResult,
    PromptMessage,
    ToolShape,
    Unhostable,
    UnprovenTool,
)
from rehearsal_room.scenarios.synth.core.world_drafts import ToolDraft, WorldDraft
from rehearsal_room.scenarios.synth.stages.common import DraftStage, Sizes, call_line, tools_json

DEAD = "no call of it succeeded: "  # the beginning of the fault or note on an unproven tool
PROOF = "proved by the author's calls: "  # the beginning of a note, before the tool and its calls
_MOST_CALLS = 20  # that the author may name for one tool


class _NamedCall(msgspec.Struct):
    name: str
    arguments: dict[str, Any] = {}


class _NamedCalls(msgspec.Struct):
    calls: dict[str, list[_NamedCall]]  # by tool; the last call is of this tool


class CodeStage(DraftStage):
    """The tools' code.

    A tool of which no call succeeded is unproven. The author corrects it or names calls that prove
    it; that answer needs no code. If neither happens the fault is tolerable: it becomes a note, and
    the oracles' calls decide (see scenarios.synth.pipeline).
    """

    name = "code"

    def __init__(
        self, draft: WorldDraft, prompts: Prompts, sizes: Sizes, host: DraftHost, folder: Path
    ) -> None:
        super().__init__(draft, prompts, sizes, host, folder)
        self._code = ""  # the last answer's, whose only fault was that tools are unproven
        self._probed = ProbeResult(0)  # of this code
        self._only_calls = False  # whether the last answer named calls and had no code
        self._named: dict[str, list[Call]] = {}  # by tool, in this answer or an earlier one

    def _fields(self) -> Mapping[str, object]:
        return {**super()._fields(), "tools": tools_json(self._draft.tools)}

    def correction(self, problems: str) -> tuple[PromptMessage, ...]:
        """The messages that report problems; unproven tools may be proved by calls."""
        return self.request_for_proofs(problems) if self._code else super().correction(problems)

    def request_for_proofs(self, problems: str) -> tuple[PromptMessage, ...]:
        """The messages that ask for calls of unproven tools, or for their correction."""
        code = f"The file so far:\n```python\n{self._code}```" if self._only_calls else ""
        fields = {**self._fields(), "problems": problems, "code": code}
        return self._prompts.messages("prove", **fields)

    async def check(self, text: str) -> CheckedAnswer[str]:
        """Check that it is allowed Python, can be hosted, has the tools, that none breaks, and that
        each succeeds with some call."""
        named = _named_calls(text)
        self._only_calls = bool(named) and "def " not in text
        named = self._named = self._named | named
        try:
            code = self._code if self._only_calls else code_of(text)
        except UnreadableAnswer as exc:
            return CheckedAnswer(None, (str(exc),))
        if faults := code_faults(code, TOOL_IMPORTS):
            return CheckedAnswer(None, tuple(faults))
        draft = msgspec.structs.replace(self._draft, code=code)
        try:
            async with self._host.host(write_package(self._folder, package_texts(draft))) as hosted:
                differing = differences(self._draft.tools, hosted.tools)
                probed = self._probed if code == self._code else await hosted.probe(seed=0)
                unproven = [
                    fault
                    for tool in probed.unproven
                    if (fault := await _fault_of(tool, named.get(tool.name, []), hosted))
                ]
        except Unhostable as exc:
            return CheckedAnswer(None, (exc.reason,))
        broken = (*differing, *probed.faults)
        self._code, self._probed = ("" if broken else code), probed
        faults = [*broken, *unproven]
        open_tools = {tool.name for tool in probed.unproven}
        lost = {fault.removeprefix(DEAD).partition(" ")[0] for fault in unproven}
        proofs = [
            f"{PROOF}{name} {msgspec.json.encode(calls).decode()}"
            for name, calls in named.items()
            if name in open_tools - lost
        ]
        return CheckedAnswer(
            code, tuple(faults), tuple(proofs), tolerable=not broken and bool(unproven)
        )


def _named_calls(text: str) -> dict[str, list[Call]]:
    """The calls that an answer names, by tool; empty where it names none."""
    try:
        named = json_of(text, _NamedCalls).calls
    except UnreadableAnswer:
        return {}
    return {
        tool: [Call(call.name, call.arguments) for call in calls[:_MOST_CALLS]]
        for tool, calls in named.items()
    }


def proofs_in(notes: Sequence[str]) -> dict[str, tuple[Call, ...]]:
    """The calls with which the author proved tools, by tool, from the stage's notes."""
    found = {}
    for note in notes:
        if note.startswith(PROOF):
            name, _, calls = note.removeprefix(PROOF).partition(" ")
            found[name] = msgspec.json.decode(calls, type=tuple[Call, ...])
    return found


async def _fault_of(tool: UnprovenTool, calls: Sequence[Call], hosted: HostedDraft) -> str:
    """Why a tool stays unproven after the calls that are named for it; empty: they prove it."""
    fault = f"{DEAD}{tool.name} ({tool.calls} were tried, also after other functions' changes"
    fault += f"; the most advanced: {tool.call} -> {tool.refusal})" if tool.call else ")"
    if not calls:
        return fault
    results = await hosted.call(calls)
    if any(result.call.name == tool.name and result.error is None for result in results):
        return ""
    return f"{fault}; the calls that you name end so:\n{_last_lines(results)}"


def _last_lines(results: Sequence[CallResult]) -> str:
    return "\n".join(call_line(result) for result in results)


def differences(specified: Sequence[ToolDraft], hosted: Sequence[ToolShape]) -> list[str]:
    """The differences between the specified and the hosted tools."""
    shapes = {tool.name: tool for tool in hosted}
    faults = [f"there is no function {tool.name}" for tool in specified if tool.name not in shapes]
    known = {tool.name for tool in specified}
    faults += [f"function {name} was not specified" for name in shapes if name not in known]
    for tool in specified:
        if (shape := shapes.get(tool.name)) is None:
            continue
        parameters = set(shape.schema.get("properties", ()))
        if parameters != set(tool.parameters):
            expected, found = (
                ", ".join(sorted(names)) or "none" for names in (tool.parameters, parameters)
            )
            faults.append(f"{tool.name}: expected the parameters {expected}, found {found}")
        if not shape.description.strip():
            faults.append(f"{tool.name}: it has no docstring")
    return faults
