"""`rr.rehearse`: run your own agent, and judge its episodes with the worlds' verifiers."""

from collections.abc import Sequence
from pathlib import Path

from rehearsal_room.harness.agents.agent_env import AgentFunction
from rehearsal_room.harness.library import DEFAULT_LIMITS, JudgeFactory, Rehearsal
from rehearsal_room.harness.library import rehearse as run_agent
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.judge.statistics.run_statistics import statistics_of
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges


async def rehearse(
    agent: AgentFunction,
    scenarios: str | Sequence[str],
    output: str | Path,
    *,
    episodes: int | None = None,
    group_size: int = 1,
    concurrency: int = 64,
    judge: JudgeFactory | None = ScenarioJudges,
    seed: int = 0,
    limits: Limits = DEFAULT_LIMITS,
    resume: bool = False,
) -> Rehearsal:
    """Run episodes of your agent and log them in the folder `output`.

    `scenarios` are given as `name`, `path` or `name:task`, one or several; `episodes` is the total,
    None: one group of each task; fewer play a sample of the tasks, always the same. `judge` makes
    the judge: the one of the verifiers, if you pass no other; with None the episodes stay unjudged.
    With `resume` only the missing episodes are run.

    Raises SettingsError, ScenarioError, PoolError and LogError. When it is cancelled, the log has
    what happened until then. Where structlog is not configured, only warnings are shown.
    """
    return await run_agent(
        agent,
        scenarios,
        output,
        episodes=episodes,
        group_size=group_size,
        concurrency=concurrency,
        judge=judge,
        seed=seed,
        limits=limits,
        resume=resume,
        statistics_of=statistics_of,
    )
