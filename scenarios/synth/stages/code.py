"""The stage that writes the tools: hosted, compared with the specification, every one called."""

from collections.abc import Mapping, Sequence

import msgspec

from scenarios.synth.core.answer_parsing import Unread, code_of
from scenarios.synth.core.attempts import Checked
from scenarios.synth.core.code_rules import TOOL_IMPORTS, code_faults
from scenarios.synth.core.package_files import texts_of, write
from scenarios.synth.core.protocols import ToolShape, Unhostable
from scenarios.synth.core.world_drafts import ToolDraft
from scenarios.synth.stages.common import DraftStage, tools_json

DEAD = "no call of it succeeded: "  # how such a note begins


class CodeStage(DraftStage):
    """The tools' code. A tool of which no call succeeded is dead: that is a fault which one
    correction may mend, and a note after it."""

    name = "code"

    def _fields(self) -> Mapping[str, object]:
        return {**super()._fields(), "tools": tools_json(self._draft.tools)}

    async def check(self, text: str) -> Checked[str]:
        """It is Python of the allowed kind, it is hosted, it has the tools, and none breaks."""
        try:
            code = code_of(text)
        except Unread as exc:
            return Checked(None, (str(exc),))
        if faults := code_faults(code, TOOL_IMPORTS):
            return Checked(None, tuple(faults))
        draft = msgspec.structs.replace(self._draft, code=code)
        try:
            async with self._bench.host(write(self._folder, texts_of(draft))) as hosted:
                differing = differences(self._draft.tools, hosted.tools)
                probed = await hosted.probe(seed=0)
        except Unhostable as exc:
            return Checked(None, (exc.reason,))
        broken = (*differing, *probed.faults)
        dead = tuple(f"{DEAD}{told}" for told in probed.dead)
        return Checked(code, (*broken, *dead), bearable=not broken and bool(dead))


def differences(wanted: Sequence[ToolDraft], found: Sequence[ToolShape]) -> list[str]:
    """Where hosted tools are not those that were specified."""
    shapes = {tool.name: tool for tool in found}
    faults = [f"there is no function {tool.name}" for tool in wanted if tool.name not in shapes]
    known = {tool.name for tool in wanted}
    faults += [f"function {name} was not specified" for name in shapes if name not in known]
    for tool in wanted:
        if (shape := shapes.get(tool.name)) is None:
            continue
        given = set(shape.schema.get("properties", ()))
        if given != set(tool.parameters):
            expected, told = (
                ", ".join(sorted(names)) or "none" for names in (tool.parameters, given)
            )
            faults.append(f"{tool.name}: expected the parameters {expected}, found {told}")
        if not shape.description.strip():
            faults.append(f"{tool.name}: it has no docstring")
    return faults
