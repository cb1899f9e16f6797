"""Cases and judges for tests of reliability studies."""

from collections.abc import Sequence
from random import Random

import msgspec

from rehearsal_room.harness.core.events import Judged, Label, ModelJudgement
from rehearsal_room.harness.core.trajectory import assemble
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.core.evidence import ScenarioInfo, Verification, gather
from rehearsal_room.judge.reliability.study import Judging
from tests.support.events import episode

REWARDS = {Label.COMPLETED: 1.0, Label.PARTIALLY_COMPLETED: 0.1}


def case_of(name: str, code: Label | None = Label.COMPLETED) -> Case:
    """A case with this label of the code judge."""
    trajectory = assemble(episode(name, 2)[:-1])
    evidence = gather(trajectory, Verification(), ScenarioInfo("", "", ""))
    return Case(trajectory, evidence, (), Judged("code", code, None), "package")


def verdict(label: Label | None, unjudged: str = "", cost_usd: float | None = 0.002) -> Judged:
    """A model's verdict, after one request of 900 and 80 tokens."""
    judgement = ModelJudgement(
        "m",
        label,
        unjudged,
        requests=1,
        prompt_tokens=900,
        cached_tokens=300,
        completion_tokens=80,
        cost_usd=cost_usd,
    )
    return Judged(
        "llm:m",
        label,
        None if label is None else REWARDS.get(label, 0.0),
        unjudged=unjudged if label is None else None,
        judgements=(judgement,),
        rubric="awm-1",
    )


def scripted(answers: dict[str, Sequence[Label | None]]) -> Judging:
    """A judge that gives these labels, by episode and repeat."""

    async def judging(case: Case, repeat: int) -> Judged:
        return verdict(answers[case.trajectory.episode][repeat], "the server is away")

    return judging


def flipping(probability: float, *, seed: int) -> Judging:
    """A judge that gives the code's label, or with a probability the opposite; every judging is
    drawn independently."""

    async def judging(case: Case, repeat: int) -> Judged:
        chance = Random(f"{seed} {case.trajectory.episode} {repeat}").random()
        completed = (case.code.label is Label.COMPLETED) is not (chance < probability)
        return verdict(Label.COMPLETED if completed else Label.AGENT_ERROR)

    return judging


def answering(case: Case, answer: str) -> Case:
    """The case with another final answer."""
    evidence = msgspec.structs.replace(case.evidence, answer=answer)
    return msgspec.structs.replace(case, evidence=evidence)
