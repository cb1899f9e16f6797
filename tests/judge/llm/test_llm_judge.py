"""The judge that asks models, without a server: which models are asked, the cache, the verdict."""

from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.harness.core.events import Ending, Judged, Label, ModelJudgement
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.judge.code.code_judge import unjudged
from rehearsal_room.judge.core.case import Case, Prompt
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.core.evidence import ScenarioInfo, episode_digest
from rehearsal_room.judge.core.rewards import AWM, GRADED, RewardProfile
from rehearsal_room.judge.llm.llm_judge import LLMJudge, LoggedCases, case_digest, judge_name
from rehearsal_room.judge.llm.rubric import read_rubric
from rehearsal_room.scenarios.checks import Finding
from tests.support.cases import FINDINGS, made_case
from tests.support.events import STARTED

RUBRIC = read_rubric()
AGENT, COMPLETED = Label.AGENT_ERROR, Label.COMPLETED
PASSED = tuple(msgspec.structs.replace(finding, passed=True) for finding in FINDINGS)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class ScriptedModel:
    """A model that always gives one label, and stores what it was asked."""

    def __init__(self, name: str, label: Label | None, fault: str = "") -> None:
        self.name = name
        self.label = label
        self.fault = fault
        self.asked: list[tuple[Prompt, int]] = []

    async def judge(self, prompt: Prompt, *, seed: int) -> ModelJudgement:
        self.asked.append((prompt, seed))
        return ModelJudgement(
            self.name, self.label, self.fault, reasoning="So it is.", requests=1, cost_usd=0.25
        )


class GivenCase:
    """A source with one case, or with the code's verdict where no case can be made."""

    def __init__(self, given: Case | Judged) -> None:
        self._given = given

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        return self._given


class DictCache:
    """A cache in a dict."""

    def __init__(self) -> None:
        self.judgements: dict[tuple[str, ...], ModelJudgement] = {}

    async def get(self, *question: str) -> ModelJudgement | None:
        return self.judgements.get(question)

    async def put(
        self, digest: str, rubric: str, model: str, mode: str, judgement: ModelJudgement
    ) -> None:
        if judgement.label is not None:
            self.judgements[digest, rubric, model, mode] = judgement


class BrokenCache(DictCache):
    """A cache whose file has become unreadable."""

    async def get(self, *question: str) -> ModelJudgement | None:
        raise JudgeError("verdicts.sqlite: it is broken")

    async def put(self, *question: Any) -> None:
        raise JudgeError("verdicts.sqlite: it is broken")


def judge_of(
    given: Case | Judged,
    *models: Any,
    cache: Any = None,
    profile: RewardProfile = AWM,
    **settings: Any,
) -> LLMJudge:
    names = tuple(model.name for model in models)
    asked = JudgeSettings(**({"mode": "hybrid", "models": names} | settings))
    return LLMJudge(GivenCase(given), models, asked, rubric=RUBRIC, profile=profile, cache=cache)


async def judged(given: Case | Judged, *models: Any, **settings: Any) -> Judged:
    trajectory = given.trajectory if isinstance(given, Case) else made_case().trajectory
    return await judge_of(given, *models, **settings).verdict(trajectory)


async def test_a_verdict_has_all_that_it_is_based_on() -> None:
    """What code proved, each model's judgement and cost, the rewards and their profile, and the
    version of the rubric."""
    case = made_case(findings=PASSED)
    first, second = ScriptedModel("a", COMPLETED), ScriptedModel("b", AGENT)
    third = ScriptedModel("c", COMPLETED)
    given = await judged(case, first, second, third, seed=7)

    judgements = tuple(
        ModelJudgement(name, label, reasoning="So it is.", requests=1, cost_usd=0.25)
        for name, label in (("a", COMPLETED), ("b", AGENT), ("c", COMPLETED))
    )
    assert given == Judged(
        judge="hybrid:a+b+c",
        label=COMPLETED,
        reward=1.0,
        step_rewards=(),
        findings=PASSED,
        reasoning="So it is.",
        episode_digest=episode_digest(case.trajectory),
        cost_usd=0.75,
        rewards="awm",
        code=COMPLETED,
        proof="the verifier's findings all passed: 'orders 7 updated', 'answer says 7', "
        "'nothing else changed'",
        judgements=judgements,
        rubric=f"{RUBRIC.version}/12000",
    )
    assert [seed for _, seed in first.asked] == [7]


async def test_the_models_alone_decide_in_mode_llm() -> None:
    """In mode `llm` they do not see what code found, and a proof does not count."""
    case = made_case(findings=PASSED)
    model = ScriptedModel("a", AGENT)
    given = await judged(case, model, mode="llm")
    [(prompt, _)] = model.asked

    assert (given.judge, given.label, given.reward) == ("llm:a", AGENT, 0.0)
    assert (given.code, given.proof) == (None, "")
    assert not any(id[0] in "FD" for id in prompt.evidence_ids)
    assert all(finding.name not in prompt.messages[1].content for finding in PASSED)


async def test_a_partial_completion_is_graded_by_the_goals_met() -> None:
    """The profile `graded` rewards the models' label by the code's findings."""
    given = await judged(made_case(), ScriptedModel("a", Label.PARTIALLY_COMPLETED), profile=GRADED)

    assert (given.label, given.reward, given.rewards) == (Label.PARTIALLY_COMPLETED, 0.5, "graded")


NOT_THE_AGENTS: list[tuple[dict[str, Any], str]] = [
    ({"ending": Ending.CANCELLED, "answer": ""}, "the episode was cancelled"),
    (
        {"ending": Ending.POLICY_ERROR, "answer": "", "error": "status 503"},
        "the model could not answer: status 503",
    ),
]


@pytest.mark.parametrize("mode", ["llm", "hybrid"])
@pytest.mark.parametrize(("evidence", "why"), NOT_THE_AGENTS)
async def test_no_model_is_asked_about_a_cancelled_or_failed_run(
    evidence: dict[str, Any], why: str, mode: Any
) -> None:
    """An episode that was cancelled, or whose agent's model died, is left unjudged at no cost."""
    model = ScriptedModel("a", COMPLETED)
    given = await judged(made_case(**evidence), model, mode=mode)

    assert (given.judge, given.label, given.unjudged) == (f"{mode}:a", None, why)
    assert (given.reward, given.cost_usd, model.asked) == (None, 0.0, [])


@pytest.mark.parametrize("mode", ["llm", "hybrid"])
async def test_no_model_is_asked_about_an_own_program_that_raised(mode: Any) -> None:
    """It has failed: no model can see it otherwise."""
    model = ScriptedModel("a", COMPLETED)
    case = made_case(ending=Ending.AGENT_FAILED, answer="", error="KeyError: 'order'")
    case = msgspec.structs.replace(
        case, code=msgspec.structs.replace(case.code, label=Label.AGENT_ERROR)
    )
    given = await judged(case, model, mode=mode)

    assert (given.label, given.reward, given.cost_usd, model.asked) == (
        *(Label.AGENT_ERROR, 0.0, 0.0),
        [],
    )
    assert given.proof == "the agent's own program failed: KeyError: 'order'"


def crashed(**changed: Any) -> Case:
    """A case whose verifier raised."""
    why = "verifier 'void' raised KeyError"
    case = made_case(findings=(), unverified=why, **changed)
    return msgspec.structs.replace(case, code=unjudged(case.trajectory, why, ()))


async def test_a_crashed_verifier_leaves_a_case_unjudged_in_mode_hybrid() -> None:
    """No model is asked; mode `llm` needs no verifier."""
    model = ScriptedModel("a", AGENT)
    hybrid = await judged(crashed(), model)
    num_asked = len(model.asked)
    llm = await judged(crashed(), model, mode="llm")

    assert (hybrid.label, hybrid.unjudged) == (None, "verifier 'void' raised KeyError")
    assert num_asked == 0
    assert (llm.label, llm.unjudged) == (AGENT, None)


async def test_models_judge_what_a_verifier_observed() -> None:
    """A record whose only verifier is of kind `sql` gives evidence but no verdict of code: models
    are asked, and nothing is proved."""
    model = ScriptedModel("a", COMPLETED)
    given = await judged(crashed(verifier="awm", observed='{"orders": 1}'), model)

    assert (given.label, given.code, given.proof) == (COMPLETED, None, "the world did not fail")
    assert "V" in model.asked[0][0].evidence_ids


async def test_an_episode_without_a_case_keeps_the_codes_reason() -> None:
    """For a task that the scenario does not have there is no case, and no model is asked."""
    case = made_case()
    silent = unjudged(case.trajectory, "scenario 'shop' has no task 'x'", ())
    model = ScriptedModel("a", COMPLETED)
    given = await judged(silent, model)

    assert given == msgspec.structs.replace(silent, judge="hybrid:a")
    assert model.asked == []


async def test_the_cache_is_used_first_and_stores_judgements_only() -> None:
    """A model judges one case once; one that gave no judgement is asked again; a study asks again
    whatever is stored."""
    case, cache = made_case(), DictCache()
    good, failing = ScriptedModel("a", AGENT), ScriptedModel("b", None, "no judgement")
    judge = judge_of(case, good, failing, cache=cache)
    for _ in range(2):
        await judge.verdict(case.trajectory)

    assert (len(good.asked), len(failing.asked)) == (1, 2)
    version = f"{RUBRIC.version}/12000"
    assert set(cache.judgements) == {(case_digest(case, "hybrid"), version, "a", "hybrid")}
    await judge.judge_case(case, seed=1, fresh=True)
    assert (len(good.asked), len(failing.asked)) == (2, 3)
    assert len(cache.judgements) == 1


async def test_a_broken_cache_costs_requests_but_no_verdict() -> None:
    """Models are asked where the cache can neither be read nor written."""
    model = ScriptedModel("a", AGENT)
    given = await judged(made_case(), model, cache=BrokenCache())

    assert (given.label, len(model.asked)) == (AGENT, 1)


async def test_models_are_asked_side_by_side() -> None:
    """Three models that wait for each other all judge; the judgements are in the models' order."""
    num_waiting = 0
    all_waiting = anyio.Event()

    class Waits(ScriptedModel):
        async def judge(self, prompt: Prompt, *, seed: int) -> ModelJudgement:
            nonlocal num_waiting
            num_waiting += 1
            if num_waiting == 3:
                all_waiting.set()
            with anyio.fail_after(5):
                await all_waiting.wait()
            return await super().judge(prompt, seed=seed)

    given = await judged(made_case(), *(Waits(name, AGENT) for name in "cab"))

    assert [judgement.model for judgement in given.judgements] == ["c", "a", "b"]
    assert given.label is AGENT


OTHER = Finding("orders 8 untouched", True, "unchanged", "unchanged", "guard")
CHANGES: dict[str, tuple[Callable[[], Case], bool]] = {
    "findings": (lambda: made_case(findings=(*FINDINGS, OTHER)), True),
    "what doing nothing meets": (lambda: made_case(idle=("answer says 7",)), True),
    "what a verifier observed": (lambda: made_case(observed="{}"), True),
    "why none ran": (lambda: made_case(unverified="it crashed"), True),
    "the same": (made_case, False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_cache_key_depends_on_what_is_shown(change: str) -> None:
    """In mode `hybrid`, what code found is part of the key; in mode `llm` it is not."""
    make, is_other = CHANGES[change]

    assert (case_digest(make(), "hybrid") != case_digest(made_case(), "hybrid")) is is_other
    assert case_digest(make(), "llm") == case_digest(made_case(), "llm")


async def test_cases_come_from_the_log_alone() -> None:
    """For judges that see the trajectory only, a case has the ScenarioInfo of its logged package,
    which is empty for a package that is not in the log, and no findings."""
    trajectory = made_case().trajectory
    info = ScenarioInfo("- Be kind.", "Ada (clerk)", "2026-03-14T09:30:00Z")
    known = await LoggedCases({STARTED.scenario_digest: info}).case(trajectory)
    unknown = await LoggedCases({}).case(trajectory)

    assert isinstance(known, Case) and isinstance(unknown, Case)
    assert (known.evidence.info, known.evidence.findings) == (info, ())
    assert unknown.evidence.info == ScenarioInfo("", "", "")
    assert known.code.label is None


def test_the_name_has_mode_and_models() -> None:
    """Verdicts are logged under the name of their judge."""
    names = [judge_name("code", []), judge_name("llm", ["a"]), judge_name("hybrid", ["a", "b"])]

    assert names == ["code", "llm:a", "hybrid:a+b"]
