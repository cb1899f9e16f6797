"""Run your own agent: an `async def agent(task, env)` that returns its final answer.

    async def agent(task: TaskView, env: AgentEnv) -> str:
        order = await env.call("get_order", {"order_id": 1042})
        return f"The order says: {order.text}"

    report = await rehearse(agent, ["shop_support"], "runs/mine", judge=ScenarioJudges)

Each call is logged as a step with its result, and so is the answer. The run is like every other: it
can be shown, judged, replayed and exported. An exception that the function raises ends its episode
with `agent_failed`: the agent has failed, and the run continues. Where a model that your function
asks is out of reach, raise `ModelFailed`: the episode ends with `policy_error` and has no verdict.

The function may make several calls at once; they are executed and logged one after the other.
`Limits.max_steps` counts the calls and the answer, `Limits.reply_timeout` is the time from one call
to the next; a call in which the world fails ends the episode (`Limits.world_stop`). Tokens are not
counted, and there is no history window: the agent keeps its own memory. Runs on asyncio.

    words = await env.say("Which order?")  # in a task with a user: what the user answers
    second = await env.fork()  # a second world in the same state: nothing counts there
    async with env.paused():  # a long wait: other episodes run meanwhile, no limit counts
        await approval
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import cache, partial
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import structlog

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.agents.agent_env import AgentFunction
from rehearsal_room.harness.agents.driver import driver_of
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.last_turns import FullWindow
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.reports.summary import (
    RunReport,
    StatisticsOf,
    read_report,
    write_report,
)
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan, names_of, plan_of, select_tasks
from rehearsal_room.harness.rollout.process import warnings_only
from rehearsal_room.harness.rollout.remaining import scenarios_of
from rehearsal_room.harness.rollout.running import Judge
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Scenario

DEFAULT_LIMITS = Limits()
_log = structlog.get_logger(__name__)


JudgeFactory = Callable[[RoutingPool, Sequence[Scenario]], Judge]


class Rehearsal(RunReport, frozen=True, kw_only=True):
    """The result of `rehearse`: the run's report and its folder."""

    folder: Path


async def rehearse(
    agent: AgentFunction,
    scenarios: str | Sequence[str],
    output: str | Path,
    *,
    episodes: int | None = None,
    group_size: int = 1,
    concurrency: int = 64,
    judge: JudgeFactory | None = None,
    seed: int = 0,
    limits: Limits = DEFAULT_LIMITS,
    resume: bool = False,
    statistics_of: StatisticsOf | None = None,
) -> Rehearsal:
    """Run episodes of your agent and log them in the folder `output`.

    `scenarios` are given as `name`, `path` or `name:task`, one or several; `episodes` is the total,
    None: one group of each task; fewer play a sample of the tasks, always the same. `judge` makes
    the judge, as `rehearsal_room.judge.verdicts.code_judges.ScenarioJudges` does; with None the
    episodes stay unjudged. With `resume` only the missing episodes are run. `statistics_of`
    computes the report's statistics; None: it has none. `rr.rehearse` (bridges.rehearsals) passes
    both.

    Raises SettingsError, ScenarioError, PoolError and LogError. When it is cancelled, the log has
    what happened until then. Where structlog is not configured, only warnings are shown.
    """
    _require(agent, output, {"episodes": episodes, "group_size": group_size}, concurrency)
    scenarios, folder = names_of(scenarios), Path(output)
    plans = await anyio.to_thread.run_sync(
        partial(
            _plans,
            scenarios,
            folder if resume else None,
            episodes=episodes,
            group_size=group_size,
            seed=seed,
        )
    )
    worlds = scenarios_of(plans)
    async with AsyncExitStack() as stack:
        stack.enter_context(warnings_only())
        pool = await stack.enter_async_context(RoutingPool(report_trusted=_log_trusted))
        await pool.host_all(worlds)
        parts = RunParts(
            pool=pool,
            policy=_FunctionPolicy(agent),
            dialect=Native(),
            history=FullWindow(),
            format=FormatSettings(),
            limits=limits,
            judge=None if judge is None else judge(pool, worlds),
            driver=driver_of(agent),
        )
        await run_session(
            folder, plans, parts, concurrency=concurrency, meters=Meters(), resume=resume
        )
    return await anyio.to_thread.run_sync(_report, folder, statistics_of, limits)


def _require(agent: object, output: object, sizes: dict[str, int | None], concurrency: int) -> None:
    """Raise SettingsError for arguments with which no run can be begun."""
    if not callable(agent):
        raise SettingsError(f"agent: expected an async function, found {type(agent).__name__}")
    if not isinstance(output, str | Path) or not str(output):
        raise SettingsError(f"output: expected the path of a folder, found {output!r}")
    for name, value in {**sizes, "concurrency": concurrency}.items():
        if value is not None and not hasattr(value, "__index__"):
            raise SettingsError(f"{name}: expected a whole number, found {value!r}")
    if concurrency < 1:
        raise SettingsError(f"concurrency: must be at least 1, not {concurrency}")


def _plans(
    scenarios: Sequence[str],
    resumed: Path | None,
    *,
    episodes: int | None,
    group_size: int,
    seed: int,
) -> list[EpisodePlan]:
    """The episodes. Where they are fewer than the tasks need, these are a sample; a run that is
    resumed keeps the order in which it began. Raises SettingsError where it played other tasks."""
    read_once = cache(find)
    tasks = select_tasks(scenarios, read_once)
    sampled = select_tasks(scenarios, read_once, is_sampled=True)
    planned = partial(plan_of, episodes=episodes, group_size=group_size, seed=seed)
    if resumed is None or not (resumed / LOG_NAME).exists():
        is_part = episodes is not None and episodes < len(tasks) * group_size
        return list(planned(sampled if is_part else tasks))
    with open_reader(resumed) as reader:
        played = {row.episode: (row.scenario_digest, row.task) for row in reader.episodes()}
    for order in (sampled, tasks):
        plans = list(planned(order))
        known = {plan.episode: (plan.scenario.digest, plan.task.id) for plan in plans}
        if played.items() <= known.items():
            return plans
    raise SettingsError(
        f"resume: the run in {resumed} played other tasks than these, or more; name its scenarios, "
        "its group_size, and at least as many episodes"
    )


def _log_trusted(scenarios: Sequence[Scenario]) -> None:
    """Log which packages run in this process: the program that calls us trusts them."""
    names = [scenario.name for scenario in scenarios]
    _log.info("packages_in_this_process", packages=names)


def _report(folder: Path, statistics_of: StatisticsOf | None, limits: Limits) -> Rehearsal:
    with open_reader(folder) as reader:
        report = read_report(reader, statistics_of, max_steps=limits.max_steps)
    write_report(folder, report)
    return Rehearsal(**msgspec.structs.asdict(report), folder=folder)


class _FunctionPolicy:
    """Gives the run a policy name for the function; the driver takes the steps."""

    def __init__(self, agent: AgentFunction) -> None:
        self.name = f"own:{getattr(agent, '__name__', type(agent).__name__)}"

    def agent(self, assignment: Assignment) -> Agent:
        raise AssertionError("the function takes its own steps; it has no agent")
