"""The parts of a run, made from its settings."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

import anyio.to_thread
import msgspec
from rich.console import Console
from rich.text import Text

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.admission.adaptive import AdaptiveAdmission
from rehearsal_room.harness.admission.control import AdmissionControl
from rehearsal_room.harness.admission.poller import MetricsPoller
from rehearsal_room.harness.agents.opening import opened_agent
from rehearsal_room.harness.bus.mqtt_settings import BusSettings, mqtt_settings
from rehearsal_room.harness.chat.preflight import Preflight
from rehearsal_room.harness.continuation.beginning import Beginning
from rehearsal_room.harness.continuation.branches import Branches
from rehearsal_room.harness.continuation.forks import beginning_of
from rehearsal_room.harness.core.policy_card import card_mismatches, read_card
from rehearsal_room.harness.core.terminal_text import printable
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.following.published import published_run
from rehearsal_room.harness.history.base import HistoryWindow
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.policies.base import Observable, OpenPolicy
from rehearsal_room.harness.rollout.episode import EpisodeDriver
from rehearsal_room.harness.rollout.running import Judge, Link, Listener
from rehearsal_room.harness.rollout.scheduler import Admit
from rehearsal_room.harness.rollout.session import RunParts
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.harness.settings.model import ModelSettings
from rehearsal_room.harness.settings.run import Settings, stops_with_world
from rehearsal_room.harness.setup.policies import policy_of
from rehearsal_room.harness.setup.profile import profile_prompt
from rehearsal_room.harness.setup.run_folder import begin_folder, spent_on_verdicts
from rehearsal_room.harness.setup.worlds import world_source
from rehearsal_room.harness.users.base import UserSource
from rehearsal_room.harness.users.opening import users_of
from rehearsal_room.scenarios.format import Scenario, Task


class OpenJudge(Protocol):
    """Opens the judge of a run. The composition root passes it in."""

    def __call__(
        self, *, pool: RoutingPool, scenarios: Sequence[Scenario], folder: Path, spent: float
    ) -> AbstractAsyncContextManager[Judge]:
        """The judge, which is closed when the block is left. `folder` is the run's, `spent` what
        its judge has cost already, in USD."""


@asynccontextmanager
async def open_run_parts(
    settings: Settings,
    folder: Path,
    tasks: Sequence[tuple[Scenario, Task]],
    policy: OpenPolicy | None,
    *,
    pool: RoutingPool,
    open_judge: OpenJudge | None,
    episodes: int,
    resume: bool,
    admission: AdaptiveAdmission | None = None,
    admit: Admit | None = None,
    listeners: tuple[Listener, ...] = (),
) -> AsyncIterator[RunParts]:
    """The parts of a run of so many episodes. Its worlds are hosted and its folder has run.toml.

    `policy` None: the settings name a policy that needs no opening. The caller opens and closes
    pool and policy. For the others see RunParts. Raises SettingsError, LogError, ScenarioError and
    PoolError.
    """
    beginning = await anyio.to_thread.run_sync(beginning_of, settings, folder, tasks)
    branches = branches_of(settings, folder)
    listeners = listeners if branches is None else (branches, *listeners)
    await pool.host_all(scenario for scenario, _ in tasks)
    begin_folder(folder, settings, tasks, level=pool.level)
    async with AsyncExitStack() as stack:
        judge = None
        if open_judge is not None:
            scenarios = [scenario for scenario, _ in tasks]
            spent = spent_on_verdicts(folder) if resume else 0.0
            opened = open_judge(pool=pool, scenarios=scenarios, folder=folder, spent=spent)
            judge = await stack.enter_async_context(opened)
        yield await make_parts(
            settings,
            tasks,
            policy,
            pool=pool,
            users=await stack.enter_async_context(users_of(settings, tasks)),
            driver=await stack.enter_async_context(opened_agent(settings, folder)),
            judge=judge,
            beginning=beginning,
            branches=branches,
            link=link_of(settings.bus, folder, episodes=episodes, judge=settings.judge.mode),
            admission=admission,
            admit=admit,
            listeners=listeners,
        )


async def make_parts(
    settings: Settings,
    tasks: Sequence[tuple[Scenario, Task]],
    opened_policy: OpenPolicy | None,
    *,
    pool: RoutingPool,
    users: UserSource,
    driver: EpisodeDriver | None,
    judge: Judge | None,
    beginning: Beginning | None,
    branches: Branches | None = None,
    link: Link | None = None,
    admission: AdaptiveAdmission | None = None,
    admit: Admit | None = None,
    listeners: tuple[Listener, ...] = (),
) -> RunParts:
    """The parts of a run that this process plays, of what is open. Raises SettingsError and
    PoolError."""
    dialect = dialect_of(settings.dialect_name, lenient=settings.format.rules != "awm")
    return RunParts(
        pool=pool,
        policy=await policy_of(settings, opened_policy, dialect, pool, tasks),
        dialect=dialect,
        history=parse_history(settings.history, seed=settings.seed),
        format=settings.format,
        limits=_limits_of(settings),
        users=users,
        driver=driver,
        judge=judge,
        beginning=beginning,
        branches=branches,
        earlier=profile_prompt(settings),
        link=link,
        admission=admission,
        admit=admit,
        listeners=listeners,
    )


def branches_of(settings: Settings, folder: Path) -> Branches | None:
    """How the groups of a run in this folder branch; None: they do not."""
    if not settings.branch.roots:
        return None
    return Branches(settings.branch, folder, group_size=settings.group_size)


def _limits_of(settings: Settings) -> Limits:
    """The limits that the episode loop enforces. Workers enforce a deadline for calls themselves
    (see `pool_of`)."""
    is_timed = world_source(settings.worlds).needs_call_timeout
    return msgspec.structs.replace(
        settings.limits,
        call_timeout=settings.limits.call_timeout if is_timed else None,
        world_stop=stops_with_world(settings),
    )


def link_of(bus: BusSettings, folder: Path, *, episodes: int, judge: str) -> Link | None:
    """What publishes the log of a run of so many episodes on its broker; None: it has none. `judge`
    is the setting of that name."""
    if not bus.url:
        return None
    return published_run(mqtt_settings(bus), folder, episodes=episodes, judge=judge)


def admission_of(settings: Settings, policy: OpenPolicy | None) -> AdaptiveAdmission | None:
    """The admission to the policy's model server; None: the number of episodes at once is given.
    The caller lets it see the policy's requests."""
    if not settings.is_adaptive or not isinstance(policy, Observable):
        return None
    control = AdmissionControl(most=settings.max_concurrency)
    return AdaptiveAdmission(control, MetricsPoller(policy.base_url))


async def preflight(model: ModelSettings, asked: object) -> None:
    """Check the models of a policy or judge, if it has some. Raises ModelServerError."""
    if model.preflight and isinstance(asked, Preflight):
        await asked.preflight()


def warn_of_mismatches(settings: Settings, history: HistoryWindow, console: Console) -> None:
    """Print a warning when a checkpoint is run under another history window or dialect than it was
    trained in. Raises SettingsError for a model card that cannot be read."""
    if settings.policy.name not in ("local", "vllm"):
        return
    model = settings.model.name
    card = read_card(Path(model))
    if card is None:
        return
    for mismatch in card_mismatches(
        card, history=history.spec, fingerprint=history.fingerprint, dialect=settings.dialect_name
    ):
        console.print(
            Text.assemble(("WARNING", "bold red"), f" {printable(f'{model}: {mismatch}')}")
        )
