"""The judge that asks models: it makes a case of an episode, a prompt of the case, and a verdict
of the answers.

    llm      the models see the trajectory; their judgement is the verdict
    hybrid   they also see what code found, and cannot change what code proved; of a benchmark's
             episodes they are asked what its own score asks a model, and nothing else

Promises:
- A verdict has a label, or a sentence with the reason why it has none. Whatever a model or its
  server does, it causes no exception and no reward.
- Judgements with a label are stored in the cache, so that judging again asks nothing twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Protocol

import anyio
import msgspec
import structlog

from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.chat.preflight import Preflight
from rehearsal_room.harness.core.events import Ending, Judged, ModelJudgement
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.judge.code.code_judge import not_the_agents_fault, unjudged
from rehearsal_room.judge.code.proof import code_verdict_of
from rehearsal_room.judge.core import live_judging
from rehearsal_room.judge.core.case import Case, CodeVerdict, JudgeModel, Prompt
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.core.evidence import (
    ScenarioInfo,
    Verification,
    ended_of,
    episode_digest,
    gather,
)
from rehearsal_room.judge.core.rewards import RewardProfile, rewards_of, share_of
from rehearsal_room.judge.llm.criteria import Settled, proof_of, settled
from rehearsal_room.judge.llm.prompt import prompt_of
from rehearsal_room.judge.llm.rubric import Rubric, criterion_rubric
from rehearsal_room.judge.llm.verdict_cache import VerdictCache
from rehearsal_room.judge.llm.voting import OPEN, VoteDecision, decide
from rehearsal_room.scenarios.checks import Finding

_encode = msgspec.msgpack.Encoder().encode
_log = structlog.get_logger(__name__)
_CacheKey = tuple[str, str, str, str]  # digest, rubric, model, mode


class Cases(Protocol):
    """The source of cases."""

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        """The case of an episode that is over; the code's verdict where it cannot be judged."""


class Reasons(Protocol):
    """What finds the mistakes of an episode (judge.failures)."""

    async def add_to(self, trajectory: Trajectory, judged: Judged) -> Judged:
        """The verdict with them, or as it is where they cannot be found."""


class LoggedCases:
    """Cases from the log alone, for judges that see the trajectory only. `infos` are by the digest
    of the scenario's package."""

    def __init__(self, infos: Mapping[str, ScenarioInfo]) -> None:
        self._infos = infos

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        """See Cases.case."""
        why = "no verifier was asked"
        info = self._infos.get(trajectory.started.scenario_digest, ScenarioInfo("", "", ""))
        evidence = gather(trajectory, Verification((), why), info)
        return Case(trajectory, evidence, (), unjudged(trajectory, why, ()), "package")


class LLMJudge:
    """Judges episodes that are over by asking models, each of them once; live or from the log."""

    def __init__(
        self,
        cases: Cases,
        models: Sequence[JudgeModel],
        settings: JudgeSettings,
        *,
        rubric: Rubric,
        profile: RewardProfile,
        cache: VerdictCache | None = None,
        tools: Mapping[str, Mapping[str, str]] | None = None,
        reasons: Reasons | None = None,
    ) -> None:
        """`tools` are descriptions by name, by package digest, for cases that do not have them;
        `reasons` finds the mistakes of each episode (None: they are found later)."""
        self._reasons = reasons
        self._tools = dict(tools or {})
        self._cases = cases
        self._models = tuple(models)
        self._settings = settings
        self._rubric = rubric
        self._profile = profile
        self._cache = cache
        self._version = f"{rubric.version}/{settings.evidence_tokens}"
        self.name = judge_name(settings.mode, [model.name for model in models])

    async def preflight(self) -> None:
        """Check each model that has a server. Raises ModelServerError."""
        for model in self._models:
            if isinstance(model, Preflight):
                await model.preflight()

    async def serve(self, subscription: Subscription, record: live_judging.RecordJudged) -> None:
        """Judge every episode that ends, until the bus is closed (see judge.core.live_judging)."""
        await live_judging.serve(
            subscription,
            self,
            record,
            concurrency=self._settings.concurrency,
            backlog=self._settings.backlog,
        )

    def suspends(self, trajectory: Trajectory) -> bool:
        """True: models are waited for."""
        return True

    async def verdict(self, trajectory: Trajectory) -> Judged:
        """The verdict on an episode that is over; ValueError when it is not."""
        case = await self._cases.case(trajectory)
        if isinstance(case, Judged):
            judged = msgspec.structs.replace(case, judge=self.name)
        else:
            judged = await self.judge_case(case, seed=self._settings.seed or 0)
        return judged if self._reasons is None else await self._reasons.add_to(trajectory, judged)

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        """What is known of the episode before any model is asked; a verdict where none is asked."""
        return await self._cases.case(trajectory)

    async def judge_case(self, case: Case, *, seed: int, fresh: bool = False) -> Judged:
        """The verdict on a case. With `fresh` the models are asked even where the cache has their
        judgements."""
        hybrid, cache = self._settings.mode == "hybrid", None if fresh else self._cache
        criteria = Settled(case)
        if hybrid and not _has_no_end(case):
            criteria = await self._criteria_judged(case, seed, cache)
        were_open, by_code, case = criteria.case is not case, case.code.label, criteria.case
        if why := criteria.fault or _reason_not_to_judge(case, self._settings.mode):
            return self._unjudged(case, why, criteria.judgements)
        # A program that raised has failed; there is nothing that a model could see otherwise.
        own = ended_of(case.trajectory).ending is Ending.AGENT_FAILED
        code = code_verdict_of(case) if hybrid or own else OPEN
        judgements: tuple[ModelJudgement, ...] = ()
        if hybrid and case.verifier == "suite" and (label := case.code.label) is not None:
            own, code = True, CodeVerdict(label, frozenset((label,)), "the benchmark's own score")
        is_open = any(one.is_open for one in case.evidence.findings)
        if were_open and not is_open and (label := case.code.label) is not None:
            own, code = True, CodeVerdict(label, frozenset((label,)), proof_of(case))
        if not ((own or self._settings.ask == "unproven") and len(code.allowed) == 1):
            try:
                is_decided = len(code.allowed) == 1
                judgements = await self._ask_all(case, seed, cache, is_decided)
            except JudgeError as exc:
                return self._unjudged(case, str(exc), criteria.judgements)
        decision = decide(
            code, judgements, vote=self._settings.vote, mode="hybrid" if hybrid or own else "llm"
        )
        judged = self._judged(case, code, judgements, decision)
        # What criteria and a benchmark's own score asked is a part of the verdict's cost.
        asked = (*criteria.judgements, *case.code.asked)
        return msgspec.structs.replace(
            judged,
            asked=asked,
            cost_usd=_cost_of((*judgements, *asked)),
            code=by_code if were_open else judged.code,
        )

    async def _criteria_judged(self, case: Case, seed: int, cache: VerdictCache | None) -> Settled:
        async def ask(stripped: Case, criterion: Finding) -> tuple[ModelJudgement, ...]:
            return await self._ask_all(stripped, seed, cache, True, criterion)

        try:
            return await settled(case, ask, vote=self._settings.vote, profile=self._profile)
        except JudgeError as exc:
            return Settled(case, fault=str(exc))

    def prompt(self, case: Case, is_decided: bool, criterion: Finding | None = None) -> Prompt:
        """What each model is asked about a case; `is_decided`: code leaves one label open. With a
        `criterion` it is asked about that alone. Raises JudgeError for a case of which no prompt
        can be made."""
        mode = self._settings.mode
        assert mode == "llm" or mode == "hybrid"  # narrows the type
        return prompt_of(
            self._with_tools(case),
            self._rubric if criterion is None else criterion_rubric(),
            mode=mode,
            max_tokens=self._settings.evidence_tokens,
            is_decided=is_decided,
            criterion=criterion,
        )

    def _with_tools(self, case: Case) -> Case:
        """The case with the descriptions of its world's tools."""
        info = case.evidence.info
        known = self._tools.get(case.trajectory.started.scenario_digest)
        if info.tools or not known:
            return case
        info = msgspec.structs.replace(info, tools=dict(known))
        evidence = msgspec.structs.replace(case.evidence, info=info)
        return msgspec.structs.replace(case, evidence=evidence)

    async def _ask_all(
        self,
        case: Case,
        seed: int,
        cache: VerdictCache | None,
        is_decided: bool,
        criterion: Finding | None = None,
    ) -> tuple[ModelJudgement, ...]:
        """Every model's judgement, in the models' order. Raises JudgeError for a case of which no
        prompt can be made."""
        mode = self._settings.mode
        digest = "" if cache is None else case_digest(case, mode)
        version = self._version
        if criterion is not None:
            digest = blake2b(digest.encode() + _encode(criterion), digest_size=16).hexdigest()
            version = f"{criterion_rubric().version}/{self._settings.evidence_tokens}"
        keys = [(digest, version, model.name, mode) for model in self._models]
        judgements = {} if cache is None else await _cached(cache, keys)
        if len(judgements) == len(keys):
            return tuple(judgements[key] for key in keys)
        # Made only here: it takes longer than all the rest.
        prompt = self.prompt(case, is_decided, criterion)

        async def ask(model: JudgeModel, key: _CacheKey) -> None:
            judgements[key] = await model.judge(prompt, seed=seed)
            if cache is not None:
                await _store(cache, key, judgements[key])

        async with anyio.create_task_group() as tasks:
            for model, key in zip(self._models, keys, strict=True):
                if key not in judgements:
                    tasks.start_soon(ask, model, key)
        return tuple(judgements[key] for key in keys)

    def _judged(
        self,
        case: Case,
        code: CodeVerdict,
        judgements: tuple[ModelJudgement, ...],
        decision: VoteDecision,
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
            cost_usd=_cost_of(judgements),
            rewards=self._profile.name,
            idle=case.idle,
            code=code.label,
            proof=code.proof,
            judgements=judgements,
            rubric=self._version,
            verifier_run=case.evidence.verifier_run,
            share=share_of(findings),
        )

    def _unjudged(self, case: Case, why: str, asked: Sequence[ModelJudgement] = ()) -> Judged:
        evidence = case.evidence
        verdict = unjudged(case.trajectory, why, evidence.findings, evidence.verifier_run)
        asked = (*asked, *case.code.asked)
        return msgspec.structs.replace(
            verdict,
            judge=self.name,
            code=case.code.label,
            asked=tuple(asked),
            cost_usd=_cost_of(asked),
        )


async def _cached(
    cache: VerdictCache, keys: Sequence[_CacheKey]
) -> dict[_CacheKey, ModelJudgement]:
    found: dict[_CacheKey, ModelJudgement] = {}
    try:
        for key in keys:
            if (judgement := await cache.get(*key)) is not None:
                found[key] = judgement
    except JudgeError as exc:
        _log.warning("verdict_cache_failed", error=str(exc))
    return found


async def _store(cache: VerdictCache, key: _CacheKey, judgement: ModelJudgement) -> None:
    try:
        await cache.put(*key, judgement)
    except JudgeError as exc:  # the verdict is made without the cache
        _log.warning("verdict_cache_failed", error=str(exc))


def judge_name(mode: str, models: Sequence[str]) -> str:
    """The name of a judge in the log.

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


def _reason_not_to_judge(case: Case, mode: str) -> str | None:
    """Why no judge can judge the case; None: one can."""
    if _has_no_end(case):
        return not_the_agents_fault(case.evidence)
    if mode == "hybrid" and case.code.label is None and not case.evidence.observed:
        return case.code.unjudged
    return None


def _has_no_end(case: Case) -> bool:
    """Whether the episode was broken off, and not by its agent."""
    ending = ended_of(case.trajectory).ending
    return ending.lacks_reply or ending is Ending.CANCELLED


def _cost_of(judgements: Iterable[ModelJudgement]) -> float:
    """In USD, as far as prices are known."""
    return sum(one.cost_usd or 0.0 for one in judgements)
