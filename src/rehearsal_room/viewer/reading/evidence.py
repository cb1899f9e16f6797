"""The evidence items of an episode, as a model that judges is shown them."""

from collections.abc import Mapping

import msgspec

from rehearsal_room.harness.core.events import Judged
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.core.evidence import Verification, gather, scenario_info
from rehearsal_room.judge.llm.prompt_items import groups_of


def evidence_of(trajectory: Trajectory, world: ScenarioSnapshot) -> list[Mapping[str, str]]:
    """The items of an episode with a verdict; none without one."""
    verdict: Judged | None = trajectory.judged[-1] if trajectory.judged else None
    if trajectory.ended is None or verdict is None:
        return []
    verification = Verification(verdict.findings, None if verdict.findings else verdict.unjudged)
    evidence = gather(trajectory, verification, scenario_info(world))
    code = msgspec.structs.replace(verdict, label=verdict.code, judge="code", judgements=())
    case = Case(trajectory, evidence, verdict.idle, code, "package")
    return [
        {"id": item.evidence_id, "title": group.title, "about": about, "text": text}
        for group in groups_of(case, "hybrid")
        for item in group.items
        for about, text in item.texts
    ]
