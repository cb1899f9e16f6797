"""Opening the judge that the settings name: the code judge, or one that asks models."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from rehearsal_room.harness.chat.budget import Budget
from rehearsal_room.harness.chat.prices import read_prices
from rehearsal_room.harness.dialects.awm_release import require_repair
from rehearsal_room.harness.settings.judge import JudgeSettings, asks_models, needs_models, planted
from rehearsal_room.harness.setup.run_trust import kept_path
from rehearsal_room.judge.code.runners import VerifierPool
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.core.evidence import ScenarioInfo, scenario_info
from rehearsal_room.judge.core.rewards import PROFILES
from rehearsal_room.judge.failures.diagnoser import Diagnoser
from rehearsal_room.judge.llm.client import ChatJudgeModel, judge_models
from rehearsal_room.judge.llm.kept_answers import KeptAnswers
from rehearsal_room.judge.llm.llm_judge import Cases, LLMJudge, LoggedCases, Reasons
from rehearsal_room.judge.llm.prompt import least_tokens
from rehearsal_room.judge.llm.released import ReleasedJudge
from rehearsal_room.judge.llm.rubric import Rubric, read_rubric
from rehearsal_room.judge.llm.verdict_cache import VerdictCache
from rehearsal_room.judge.verdicts.code_judges import HostingPool, ScenarioJudges
from rehearsal_room.judge.verdicts.planted_errors import PlantedErrors
from rehearsal_room.scenarios.awm.released_code import released_prompts
from rehearsal_room.scenarios.format import Scenario

CACHE_NAME = "verdicts.sqlite"


@asynccontextmanager
async def open_judge(
    settings: JudgeSettings,
    *,
    pool: HostingPool | None,
    scenarios: Sequence[Scenario],
    folder: Path,
    spent: float = 0.0,
    infos: Mapping[str, ScenarioInfo] | None = None,
    reasons: Reasons | None = None,
) -> AsyncIterator[ScenarioJudges | PlantedErrors | LLMJudge | ReleasedJudge]:
    """The judge of the settings; it is closed when the block is left.

    `pool` hosts the scenarios already; mode `llm` needs no pool (None). `folder` is the run's, and
    `spent` is what its budget has paid already, in USD. `infos` is what agents know of their
    worlds, by package digest, for mode `llm`; None: taken from the scenarios. `reasons` finds the
    mistakes of episodes where there is no pool; None: they are found later.

    Raises JudgeError and SettingsError for a rubric, prices or models that cannot be used, before
    any model is asked, and PackageError for a broken verify.py and for a profile's prompts that
    cannot be read.
    """
    assert settings.mode != "none" and settings.mode != "elsewhere", "there is no judge to open"
    if not needs_models(settings):
        assert pool is not None
        yield _code_judge(settings, pool, scenarios)
        return
    prices = read_prices(Path(settings.prices)) if settings.prices else None
    rubric = _rubric_of(settings) if asks_models(settings.mode) else None
    models = judge_models(settings, prices, Budget(settings.budget, spent=spent))
    async with AsyncExitStack() as stack:
        for model in models:
            await stack.enter_async_context(model)
        path = Path(settings.cache) if settings.cache else kept_path(folder, CACHE_NAME)
        cache = await stack.enter_async_context(VerdictCache(path))
        own: ScenarioJudges | LLMJudge
        if rubric is None:
            assert pool is not None
            own = ScenarioJudges(pool, scenarios, PROFILES[settings.rewards])
        else:
            own = _llm_judge(
                settings,
                models,
                rubric,
                pool=pool,
                scenarios=scenarios,
                cache=cache,
                infos=infos,
                reasons=reasons,
            )
        if settings.profile == "none":
            yield own
            return
        assert isinstance(pool, VerifierPool)
        require_repair()
        yield ReleasedJudge(
            own,
            models[0],
            pool=pool,
            scenarios=scenarios,
            prompt=released_prompts(Path(settings.awm_code)).judge,
            cache=cache,
            name=own.name,
            concurrency=settings.concurrency,
            backlog=settings.backlog,
        )


def _code_judge(
    settings: JudgeSettings, pool: HostingPool, scenarios: Sequence[Scenario]
) -> ScenarioJudges | PlantedErrors:
    profile = PROFILES[settings.rewards]
    judge = ScenarioJudges(pool, scenarios, profile)
    if (shares := planted(settings)) is None:
        return judge
    return PlantedErrors(
        judge,
        false_positives=shares[0],
        false_negatives=shares[1],
        seed=settings.seed or 0,
        profile=profile,
    )


def _rubric_of(settings: JudgeSettings) -> Rubric:
    """The rubric, if a question with it fits. Raises JudgeError."""
    assert settings.mode == "llm" or settings.mode == "hybrid"  # narrows the type
    rubric = read_rubric(Path(settings.rubric) if settings.rubric else None)
    if settings.evidence_tokens < (least := least_tokens(rubric, settings.mode)):
        raise JudgeError(
            f"evidence_tokens: {settings.evidence_tokens:,} are too few: with rubric "
            f"{rubric.name!r} a question needs at least {least:,}"
        )
    return rubric


def _llm_judge(
    settings: JudgeSettings,
    models: Sequence[ChatJudgeModel],
    rubric: Rubric,
    *,
    pool: HostingPool | None,
    scenarios: Sequence[Scenario],
    cache: VerdictCache,
    infos: Mapping[str, ScenarioInfo] | None,
    reasons: Reasons | None,
) -> LLMJudge:
    profile = PROFILES[settings.rewards]
    cases: Cases
    if settings.mode == "llm":
        known = {scenario.digest: scenario_info(scenario) for scenario in scenarios}
        cases = LoggedCases(known if infos is None else infos)
        reasons = reasons if pool is None else Diagnoser(pool, scenarios)
    else:
        assert pool is not None
        cases = code = ScenarioJudges(pool, scenarios, profile, KeptAnswers(models[0], cache))
        reasons = code.diagnoser
    return LLMJudge(
        cases,
        models,
        settings,
        rubric=rubric,
        profile=profile,
        cache=cache,
        tools=None if pool is None else _descriptions(pool, scenarios),
        reasons=reasons,
    )


def _descriptions(pool: HostingPool, scenarios: Sequence[Scenario]) -> dict[str, dict[str, str]]:
    """The descriptions of the worlds' tools, by package digest and name."""
    return {
        scenario.digest: {tool.name: tool.description for tool in pool.hosted(scenario).tools}
        for scenario in scenarios
        if scenario.foreign is None
    }
