"""The judge that asks models: of an episode a case, of the case a question, of answers a verdict.

    llm      the models see the trajectory; what they say is the verdict
    hybrid   they see what the code found, too, and what the code proved stands

Promises:
- A verdict has a label, or says in a sentence why there is none. Whatever a model or its server
  does, no exception comes of it, and no reward.
- Opinions that could be had are kept in the cache, so that judging again asks nothing twice.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Protocol

import anyio
import msgspec
import structlog

from harness.core.events import Ending, Judged, Label, ModelJudgement
from harness.core.trajectory import Trajectory
from harness.settings.judge import JudgeSettings
from judge.code.code_judge import not_the_agents_fault, unjudged
from judge.code.proof import ruling_of
from judge.core.case import Case, Prompt, Reasoner, Ruling
from judge.core.errors import JudgeError
from judge.core.evidence import ScenarioInfo, Verification, ended_of, episode_digest, gather
from judge.core.rewards import RewardProfile, rewards_of
from judge.llm.prompt import prompt_of
from judge.llm.rubric import Rubric
from judge.llm.voting import Decision, decide

_encode = msgspec.msgpack.Encoder().encode
_log = structlog.get_logger(__name__)
_Question = tuple[str, str, str, str]  # digest, rubric, model, mode
OPEN = Ruling(None, frozenset(Label), "")  # where the code is not asked


class Cases(Protocol):
    """Where cases come from."""

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        """The case of an episode that is over; the code's verdict where it cannot be judged."""


class Keeps(Protocol):
    """A cache of opinions."""

    async def get(self, digest: str, rubric: str, model: str, mode: str) -> ModelJudgement | None:
        """What the model said before of the same; None: nothing is known. Raises JudgeError."""

    async def put(
        self, digest: str, rubric: str, model: str, mode: str, opinion: ModelJudgement
    ) -> None:
        """Keep an opinion, if it is one. Raises JudgeError."""


class LoggedCases:
    """Cases from the log alone, for judges that see the trajectory only. `scenes` are by the
    digest of the scenario's package."""

    def __init__(self, scenes: Mapping[str, ScenarioInfo]) -> None:
        self._scenes = scenes

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        """See Cases.case."""
        nothing = Verification((), "no verifier was asked")
        scene = self._scenes.get(trajectory.started.scenario_digest, ScenarioInfo("", "", ""))
        evidence = gather(trajectory, nothing, scene)
        silent = unjudged(trajectory, "no verifier was asked", ())
        return Case(trajectory, evidence, (), silent, "ours")


class ReasoningJudge:
    """Judges episodes that are over by asking models, each of them once."""

    def __init__(
        self,
        cases: Cases,
        reasoners: Sequence[Reasoner],
        settings: JudgeSettings,
        *,
        rubric: Rubric,
        profile: RewardProfile,
        cache: Keeps | None = None,
    ) -> None:
        self._cases = cases
        self._reasoners = tuple(reasoners)
        self._settings = settings
        self._rubric = rubric
        self._profile = profile
        self._cache = cache
        self._version = f"{rubric.version}/{settings.evidence_tokens}"
        self.name = name_of(settings.mode, [one.name for one in reasoners])

    async def judge(self, trajectory: Trajectory) -> Judged:
        """The verdict on an episode that is over; ValueError when it is not."""
        case = await self._cases.case(trajectory)
        if isinstance(case, Judged):
            return msgspec.structs.replace(case, judge=self.name)
        return await self.verdict(case, seed=self._settings.seed or 0)

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        """What is known of the episode before anybody is asked."""
        return await self._cases.case(trajectory)

    async def verdict(self, case: Case, *, seed: int, fresh: bool = False) -> Judged:
        """The verdict on a case. `fresh`: ask anew, whatever the cache has."""
        if (why := _beyond_judging(case, self._settings.mode)) is not None:
            return self._unjudged(case, why)
        hybrid = self._settings.mode == "hybrid"
        ruling = ruling_of(case) if hybrid else OPEN
        opinions: tuple[ModelJudgement, ...] = ()
        if not (self._settings.ask == "unproven" and len(ruling.allowed) == 1):
            try:
                opinions = await self._opinions(case, seed, None if fresh else self._cache)
            except JudgeError as exc:
                return self._unjudged(case, str(exc))
        decision = decide(
            ruling, opinions, vote=self._settings.vote, mode="hybrid" if hybrid else "llm"
        )
        return self._judged(case, ruling, opinions, decision)

    def _prompt(self, case: Case) -> Prompt:
        assert self._settings.mode != "code"
        assert self._settings.mode != "none"
        return prompt_of(
            case, self._rubric, mode=self._settings.mode, max_tokens=self._settings.evidence_tokens
        )

    async def _opinions(
        self, case: Case, seed: int, cache: Keeps | None
    ) -> tuple[ModelJudgement, ...]:
        """Every model's opinion, in the models' order. Raises JudgeError for a case of which no
        question can be made."""
        digest = "" if cache is None else case_digest(case, self._settings.mode)
        keys = [(digest, self._version, one.name, self._settings.mode) for one in self._reasoners]
        said = {} if cache is None else await _known(cache, keys)
        if len(said) == len(keys):
            return tuple(said[key] for key in keys)
        prompt = self._prompt(case)  # made only here: it takes longer than all the rest

        async def ask(reasoner: Reasoner, key: _Question) -> None:
            said[key] = await reasoner.opinion(prompt, seed=seed)
            if cache is not None:
                await _keep(cache, key, said[key])

        async with anyio.create_task_group() as tasks:
            for reasoner, key in zip(self._reasoners, keys, strict=True):
                if key not in said:
                    tasks.start_soon(ask, reasoner, key)
        return tuple(said[key] for key in keys)

    def _judged(
        self, case: Case, ruling: Ruling, opinions: tuple[ModelJudgement, ...], decision: Decision
    ) -> Judged:
        findings = case.evidence.findings
        reward: float | None = None
        steps: tuple[float, ...] = ()
        if decision.label is not None:
            reward, steps = rewards_of(
                decision.label, case.trajectory, self._profile, findings=findings, idle=case.idle
            )
        return Judged(
            judge=self.name,
            label=decision.label,
            reward=reward,
            step_rewards=steps,
            findings=findings,
            unjudged=None if decision.label is not None else decision.unjudged,
            reasoning=decision.reasoning,
            episode_digest=episode_digest(case.trajectory),
            cost_usd=sum(opinion.cost_usd or 0.0 for opinion in opinions),
            rewards=self._profile.name,
            idle=case.idle,
            code=ruling.label,
            proof=ruling.proof,
            opinions=opinions,
            rubric=self._version,
        )

    def _unjudged(self, case: Case, why: str) -> Judged:
        verdict = unjudged(case.trajectory, why, case.evidence.findings)
        return msgspec.structs.replace(verdict, judge=self.name, code=case.code.label)


async def _known(cache: Keeps, questions: Sequence[_Question]) -> dict[_Question, ModelJudgement]:
    known: dict[_Question, ModelJudgement] = {}
    try:
        for question in questions:
            if (opinion := await cache.get(*question)) is not None:
                known[question] = opinion
    except JudgeError as exc:
        _log.warning("verdict_cache_failed", error=str(exc))
    return known


async def _keep(cache: Keeps, question: _Question, opinion: ModelJudgement) -> None:
    try:
        await cache.put(*question, opinion)
    except JudgeError as exc:  # the verdict is had all the same
        _log.warning("verdict_cache_failed", error=str(exc))


def name_of(mode: str, models: Sequence[str]) -> str:
    """Under which name a judge's verdicts stand in the log.

    Example: "hybrid", ["gpt-5", "qwen3"] -> "hybrid:gpt-5+qwen3"
    """
    return mode if mode == "code" else f"{mode}:{'+'.join(models)}"


def case_digest(case: Case, mode: str) -> str:
    """The digest of what is judged: the episode's facts and, where they are shown, the findings."""
    digest = episode_digest(case.trajectory)
    if mode == "llm":
        return digest
    shown = (case.evidence.findings, case.evidence.unverified, case.evidence.observed, case.idle)
    return blake2b(digest.encode() + _encode(shown), digest_size=16).hexdigest()


def _beyond_judging(case: Case, mode: str) -> str | None:
    """Why nobody can judge the case; None: somebody can."""
    ending = ended_of(case.trajectory).ending
    if ending in (Ending.CANCELLED, Ending.POLICY_ERROR):
        return not_the_agents_fault(case.evidence)
    if mode == "hybrid" and case.code.label is None and not case.evidence.observed:
        return case.code.unjudged
    return None
