"""The judge that asks models, without a server: who is asked, what is kept, what it gives."""

from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest

from harness.core.events import Ending, Judged, Label, ModelJudgement
from harness.core.trajectory import Trajectory
from harness.settings.judge import JudgeSettings
from judge.code.code_judge import unjudged
from judge.core.case import Case, Prompt
from judge.core.errors import JudgeError
from judge.core.evidence import ScenarioInfo, episode_digest
from judge.core.rewards import AWM, GRADED, RewardProfile
from judge.llm.llm_judge import LoggedCases, ReasoningJudge, case_digest, name_of
from judge.llm.rubric import read_rubric
from scenarios.checks import Finding
from tests.support.cases import FINDINGS, made_case
from tests.support.events import STARTED

RUBRIC = read_rubric()
AGENT, COMPLETED = Label.AGENT_ERROR, Label.COMPLETED
PASSED = tuple(msgspec.structs.replace(finding, passed=True) for finding in FINDINGS)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Says:
    """A model that says one thing, and keeps what it was asked."""

    def __init__(self, name: str, label: Label | None, fault: str = "") -> None:
        self.name = name
        self.label = label
        self.fault = fault
        self.asked: list[tuple[Prompt, int]] = []

    async def opinion(self, prompt: Prompt, *, seed: int) -> ModelJudgement:
        self.asked.append((prompt, seed))
        return ModelJudgement(
            self.name, self.label, self.fault, reasoning="So it is.", requests=1, cost_usd=0.25
        )


class Has:
    """Cases as they were made; or what the code says of one that nobody can judge."""

    def __init__(self, given: Case | Judged) -> None:
        self._given = given

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        return self._given


class Kept:
    """A cache in a dict."""

    def __init__(self) -> None:
        self.opinions: dict[tuple[str, ...], ModelJudgement] = {}

    async def get(self, *question: str) -> ModelJudgement | None:
        return self.opinions.get(question)

    async def put(
        self, digest: str, rubric: str, model: str, mode: str, opinion: ModelJudgement
    ) -> None:
        if opinion.label is not None:
            self.opinions[digest, rubric, model, mode] = opinion


class Broken(Kept):
    """A cache whose file is no good any more."""

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
) -> ReasoningJudge:
    names = tuple(model.name for model in models)
    asked = JudgeSettings(**({"mode": "hybrid", "models": names} | settings))
    return ReasoningJudge(Has(given), models, asked, rubric=RUBRIC, profile=profile, cache=cache)


async def judged(given: Case | Judged, *models: Any, **settings: Any) -> Judged:
    trajectory = given.trajectory if isinstance(given, Case) else made_case().trajectory
    return await judge_of(given, *models, **settings).judge(trajectory)


async def test_a_verdict_holds_all_that_it_is_made_of() -> None:
    """What the code proved, what each model said and cost, the rewards and their profile, and the
    versions of what was asked are in the verdict."""
    case = made_case(findings=PASSED)
    first, second = Says("a", COMPLETED), Says("b", AGENT)
    third = Says("c", COMPLETED)
    given = await judged(case, first, second, third, seed=7)

    opinions = tuple(
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
        opinions=opinions,
        rubric=f"{RUBRIC.version}/12000",
    )
    assert [seed for _, seed in first.asked] == [7]


async def test_the_models_alone_decide_in_mode_llm() -> None:
    """In mode llm they are not shown what the code found, and what it proved has no say."""
    case = made_case(findings=PASSED)
    model = Says("a", AGENT)
    given = await judged(case, model, mode="llm")
    [(prompt, _)] = model.asked

    assert (given.judge, given.label, given.reward) == ("llm:a", AGENT, 0.0)
    assert (given.code, given.proof) == (None, "")
    assert not any(id[0] in "FD" for id in prompt.exhibits)
    assert all(finding.name not in prompt.messages[1].content for finding in PASSED)


async def test_a_partial_completion_is_graded_by_what_was_met() -> None:
    """The profile pays what models say by the findings that the code made."""
    given = await judged(made_case(), Says("a", Label.PARTIALLY_COMPLETED), profile=GRADED)

    assert (given.label, given.reward, given.rewards) == (Label.PARTIALLY_COMPLETED, 0.5, "graded")


NOBODYS: list[tuple[dict[str, Any], str]] = [
    ({"ending": Ending.CANCELLED, "answer": ""}, "the episode was cancelled"),
    (
        {"ending": Ending.POLICY_ERROR, "answer": "", "error": "status 503"},
        "the model could not answer: status 503",
    ),
]


@pytest.mark.parametrize("mode", ["llm", "hybrid"])
@pytest.mark.parametrize(("evidence", "why"), NOBODYS)
async def test_nobody_is_asked_about_what_is_nobodys_doing(
    evidence: dict[str, Any], why: str, mode: Any
) -> None:
    """An episode that was cancelled, or whose agent's model died, is left unjudged for nothing."""
    model = Says("a", COMPLETED)
    given = await judged(made_case(**evidence), model, mode=mode)

    assert (given.judge, given.label, given.unjudged) == (f"{mode}:a", None, why)
    assert (given.reward, given.cost_usd, model.asked) == (None, 0.0, [])


def crashed(**changed: Any) -> Case:
    """A case whose verifier crashed."""
    why = "verifier 'void' raised KeyError"
    case = made_case(findings=(), unverified=why, **changed)
    return msgspec.structs.replace(case, code=unjudged(case.trajectory, why, ()))


async def test_a_crashed_verifier_leaves_a_case_unjudged_where_its_findings_are_shown() -> None:
    """In mode hybrid nobody is asked; in mode llm no verifier is needed."""
    model = Says("a", AGENT)
    hybrid = await judged(crashed(), model)
    num_asked = len(model.asked)
    llm = await judged(crashed(), model, mode="llm")

    assert (hybrid.label, hybrid.unjudged) == (None, "verifier 'void' raised KeyError")
    assert num_asked == 0
    assert (llm.label, llm.unjudged) == (AGENT, None)


async def test_what_a_verifier_observed_can_be_reasoned_about() -> None:
    """A record that has a verifier of kind sql alone gives no verdict of code, but evidence: models
    are asked, and nothing is proved."""
    model = Says("a", COMPLETED)
    given = await judged(crashed(author="awm", observed='{"orders": 1}'), model)

    assert (given.label, given.code, given.proof) == (COMPLETED, None, "")
    assert "V" in model.asked[0][0].exhibits


async def test_what_the_code_cannot_make_a_case_of_has_its_sentence() -> None:
    """Of a task that the scenario does not have there is no case, and nobody is asked."""
    case = made_case()
    silent = unjudged(case.trajectory, "scenario 'shop' has no task 'x'", ())
    model = Says("a", COMPLETED)
    given = await judged(silent, model)

    assert given == msgspec.structs.replace(silent, judge="hybrid:a")
    assert model.asked == []


async def test_the_cache_is_asked_first_and_told_of_opinions_alone() -> None:
    """A model is asked once about one question; one that gave no opinion is asked again; a study
    asks anew whatever is known."""
    case, cache = made_case(), Kept()
    good, ill = Says("a", AGENT), Says("b", None, "no opinion")
    judge = judge_of(case, good, ill, cache=cache)
    for _ in range(2):
        await judge.judge(case.trajectory)

    assert (len(good.asked), len(ill.asked)) == (1, 2)
    version = f"{RUBRIC.version}/12000"
    assert set(cache.opinions) == {(case_digest(case, "hybrid"), version, "a", "hybrid")}
    await judge.verdict(case, seed=1, fresh=True)
    assert (len(good.asked), len(ill.asked)) == (2, 3)
    assert len(cache.opinions) == 1


async def test_a_cache_that_broke_costs_questions_and_no_verdict() -> None:
    """What can neither be read nor kept is asked for, and judged."""
    model = Says("a", AGENT)
    given = await judged(made_case(), model, cache=Broken())

    assert (given.label, len(model.asked)) == (AGENT, 1)


async def test_models_are_asked_side_by_side() -> None:
    """Three models that wait for each other all give their opinions, told in their order."""
    here = 0
    together = anyio.Event()

    class Waits(Says):
        async def opinion(self, prompt: Prompt, *, seed: int) -> ModelJudgement:
            nonlocal here
            here += 1
            if here == 3:
                together.set()
            with anyio.fail_after(5):
                await together.wait()
            return await super().opinion(prompt, seed=seed)

    given = await judged(made_case(), *(Waits(name, AGENT) for name in "cab"))

    assert [opinion.model for opinion in given.opinions] == ["c", "a", "b"]
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
def test_another_view_of_the_code_is_another_question(change: str) -> None:
    """Where what the code found is shown, it is part of what the cache goes by; in mode llm it is
    not."""
    make, is_other = CHANGES[change]

    assert (case_digest(make(), "hybrid") != case_digest(made_case(), "hybrid")) is is_other
    assert case_digest(make(), "llm") == case_digest(made_case(), "llm")


async def test_cases_come_from_the_log_alone() -> None:
    """For judges that see the trajectory, a case has the scene that the log has of its package, and
    no finding; of a package that it has not, nothing is told."""
    trajectory = made_case().trajectory
    scene = ScenarioInfo("- Be kind.", "Ada (clerk)", "2026-03-14T09:30:00Z")
    known = await LoggedCases({STARTED.scenario_digest: scene}).case(trajectory)
    unknown = await LoggedCases({}).case(trajectory)

    assert isinstance(known, Case) and isinstance(unknown, Case)
    assert (known.evidence.scene, known.evidence.findings) == (scene, ())
    assert unknown.evidence.scene == ScenarioInfo("", "", "")
    assert known.code.label is None


def test_the_name_tells_mode_and_models() -> None:
    """Verdicts stand in the log under who gave them."""
    names = [name_of("code", []), name_of("llm", ["a"]), name_of("hybrid", ["a", "b"])]

    assert names == ["code", "llm:a", "hybrid:a+b"]
