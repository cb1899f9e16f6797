"""The stage that writes the tools. They are hosted, compared with the specification, and called."""

from collections.abc import Mapping, Sequence

import msgspec

from scenarios.synth.core.answer_parsing import UnreadableAnswer, code_of
from scenarios.synth.core.attempts import CheckedAnswer
from scenarios.synth.core.code_rules import TOOL_IMPORTS, code_faults
from scenarios.synth.core.package_files import package_texts, write_package
from scenarios.synth.core.protocols import ToolShape, Unhostable
from scenarios.synth.core.world_drafts import ToolDraft
from scenarios.synth.stages.common import DraftStage, tools_json

DEAD = "no call of it succeeded: "  # the beginning of the note on a dead tool


class CodeStage(DraftStage):
    """The tools' code. A tool of which no call succeeded is dead: this is a fault that one
    correction may fix, and a note if it does not."""

    name = "code"

    def _fields(self) -> Mapping[str, object]:
        return {**super()._fields(), "tools": tools_json(self._draft.tools)}

    async def check(self, text: str) -> CheckedAnswer[str]:
        """Check that it is allowed Python, can be hosted, has the tools, and that none breaks."""
        try:
            code = code_of(text)
        except UnreadableAnswer as exc:
            return CheckedAnswer(None, (str(exc),))
        if faults := code_faults(code, TOOL_IMPORTS):
            return CheckedAnswer(None, tuple(faults))
        draft = msgspec.structs.replace(self._draft, code=code)
        try:
            async with self._host.host(write_package(self._folder, package_texts(draft))) as hosted:
                differing = differences(self._draft.tools, hosted.tools)
                probed = await hosted.probe(seed=0)
        except Unhostable as exc:
            return CheckedAnswer(None, (exc.reason,))
        broken = (*differing, *probed.faults)
        dead = tuple(f"{DEAD}{tool}" for tool in probed.dead)
        return CheckedAnswer(code, (*broken, *dead), tolerable=not broken and bool(dead))


def differences(specified: Sequence[ToolDraft], hosted: Sequence[ToolShape]) -> list[str]:
    """Return the differences between the specified and the hosted tools."""
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
