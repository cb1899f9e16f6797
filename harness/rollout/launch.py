"""Launching a run: choose the parts that the settings name, make the folder, run the session.

The composition root passes in what this package may not import: `open_judge`, which opens the judge
of a run.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from functools import partial
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from typing import Any, Protocol

import anyio.to_thread
import msgspec
from rich.console import Console
from rich.text import Text

from rehearsal_room.envpool.objects.pool import ObjectPool
from rehearsal_room.envpool.objects.process import ProgramSettings
from rehearsal_room.envpool.router import ReportTrusted, RoutingPool
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.envpool.workers.pool import WorkerSettings, open_fork_server
from rehearsal_room.harness.admission.adaptive import AdaptiveAdmission, Settled
from rehearsal_room.harness.admission.control import AdmissionControl
from rehearsal_room.harness.admission.poller import MetricsPoller
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings, broker_of
from rehearsal_room.harness.chaos.chaos import Chaos
from rehearsal_room.harness.chaos.settings import read_chaos
from rehearsal_room.harness.chat.preflight import Preflight
from rehearsal_room.harness.continuation.forks import beginning_of, seed_of
from rehearsal_room.harness.core.errors import LogError, SettingsError
from rehearsal_room.harness.core.loop_lag import LagMonitor
from rehearsal_room.harness.core.policy_card import card_mismatches, read_card
from rehearsal_room.harness.core.terminal import Terminal
from rehearsal_room.harness.core.terminal_text import printable
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.following.published import published_run
from rehearsal_room.harness.history.base import HistoryPolicy
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME, write_atomically
from rehearsal_room.harness.policies.base import Observable, OpenPolicy
from rehearsal_room.harness.rollout.allow_list import read_allow_list
from rehearsal_room.harness.rollout.gc_tuning import tune_garbage_collector
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan, plan_of, select_tasks
from rehearsal_room.harness.rollout.policies import (
    LocalPolicy,
    open_policy,
    policy_of,
    unplayed_lines,
)
from rehearsal_room.harness.rollout.process import raise_file_limit, run
from rehearsal_room.harness.rollout.remaining import Remaining, read_remaining
from rehearsal_room.harness.rollout.running import Judge, Link
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.rollout.trust_notice import name_trusted
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.harness.settings.run import Settings, save, stops_with_world
from rehearsal_room.harness.settings.worlds import WorldSettings
from rehearsal_room.harness.users.left_out import num_left_out, report_left_out
from rehearsal_room.harness.users.opening import users_of
from rehearsal_room.scenarios.awm.folder import AwmFolder
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.distribution import missing_package
from rehearsal_room.scenarios.format import Scenario, Task
from rehearsal_room.scenarios.mcp_tasks import read_mcp_tasks, read_openenv_tasks
from rehearsal_room.scenarios.suites.catalogue import Suite, SuiteFinder, SuiteSource, suite
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags

After = Callable[[RoutingPool, Meters], Awaitable[Any]]  # called while the pool is still open


class OpenJudge(Protocol):
    """Opens the judge of a run."""

    def __call__(
        self, *, pool: RoutingPool, scenarios: Sequence[Scenario], folder: Path, spent: float
    ) -> AbstractAsyncContextManager[Judge]:
        """The judge, which is closed when the block is left. `folder` is the run's, `spent` what
        its judge has cost already, in USD."""


class Launched(msgspec.Struct, frozen=True):
    """The result of a run besides its log."""

    meters: Meters
    policy: dict[str, float]  # the policy's own statistics; empty where it has none
    after: Any = None  # the result of `after`
    settled: Settled | None = None  # of adaptive admission; None: a number was given


def launch(
    settings: Settings,
    folder: Path,
    *,
    resume: bool,
    open_judge: OpenJudge | None,
    local_policy: LocalPolicy | None = None,
    policy: OpenPolicy | None = None,
    after: After | None = None,
    progress: bool = True,
) -> Launched:
    """Run the episodes of the settings into a folder. `open_judge` None: the episodes stay
    unjudged. `local_policy` makes policy `local`; `policy` acts in place of the one that the
    settings name. `progress` goes to standard error.

    A run that fails before its first fact leaves no folder. Before the first episode one request
    checks each model server that will be asked (setting `preflight`). Raises HarnessError,
    ScenarioError and PoolError; ModelOutageError where the model server goes away in the run.
    """
    require_new(folder, resume=resume)
    tasks, plans = planned(settings)
    client = policy or open_policy(settings, plans, local_policy)
    if settings.bus.url:
        broker_of(settings.bus)  # before any file is written
    file = read_chaos(settings)
    chaos = None if file is None else Chaos(file, settings)
    if chaos is not None:
        open_judge = chaos.judge(open_judge)
    raise_file_limit(settings.max_concurrency + 256)
    tune_garbage_collector()
    launching = _Launching(
        settings, folder, tasks, plans, client, open_judge, after, resume, progress, chaos
    )
    with removed_if_nothing_happened(folder):
        launched: Launched = run(launching.launch)
    return launched


def require_new(folder: Path, *, resume: bool) -> None:
    """Raise LogError where a run exists that is not resumed."""
    if (folder / LOG_NAME).exists() and not resume:
        raise LogError(
            f"{folder}: a run already exists there; pass --resume or choose another folder"
        )


@contextmanager
def removed_if_nothing_happened(folder: Path) -> Iterator[None]:
    """A block whose exception removes the folder that it made, unless an episode began."""
    is_new = not folder.exists()
    try:
        yield
    except Exception:
        if is_new and folder.exists() and not has_episodes(folder):
            rmtree(folder)
        raise


class _Launching(msgspec.Struct, frozen=True):
    """One launch's work inside of the event loop."""

    settings: Settings
    folder: Path
    tasks: list[tuple[Scenario, Task]]
    plans: list[EpisodePlan]
    client: OpenPolicy | None
    open_judge: OpenJudge | None
    after: After | None
    resume: bool
    progress: bool
    chaos: Chaos | None

    async def launch(self) -> Launched:
        settings, client = self.settings, self.client
        left = await self._left()
        if left.missing:
            await preflight(settings, client)
        async with AsyncExitStack() as stack:
            pool = await stack.enter_async_context(pool_of(settings, chaos=self.chaos))
            opened = open_run_parts(
                settings,
                self.folder,
                self.tasks,
                client,
                pool=pool,
                open_judge=self.open_judge,
                episodes=len(self.plans),
                resume=self.resume,
                chaos=self.chaos,
            )
            parts = await stack.enter_async_context(opened)
            console = Terminal(stderr=True)
            if pool.level:
                console.print(f"sandbox for untrusted code: {pool.level}", highlight=False)
            left_out = num_left_out(settings.scenarios, self.tasks)
            report_left_out(left_out, "--dialogue plays them, too")
            if note := unplayed_lines(settings, self.plans):
                console.print(note, highlight=False, soft_wrap=True)
            warn_of_mismatches(settings, parts.history, console)
            if left.missing or left.unjudged:
                await preflight(settings, parts.judge)
            if client is not None and left.missing:
                await stack.enter_async_context(client)
            meters = Meters(pool, lag=LagMonitor())
            admission = admission_of(settings, client)
            if admission is not None and isinstance(client, Observable):
                client.observe(admission)
            await run_session(
                self.folder,
                self.plans,
                msgspec.structs.replace(parts, admission=admission),
                concurrency=settings.number_at_once,
                meters=meters,
                resume=self.resume,
                console=console if self.progress else None,
            )
            result = None if self.after is None else await self.after(pool, meters)
            statistics = {} if client is None else client.statistics()
            settled = None if admission is None else admission.settled
            return Launched(meters, statistics, result, settled)

    async def _left(self) -> Remaining:
        judged = self.open_judge is not None
        read = partial(read_remaining, self.folder, self.plans, resume=self.resume, judged=judged)
        return await anyio.to_thread.run_sync(read)


def admission_of(settings: Settings, policy: OpenPolicy | None) -> AdaptiveAdmission | None:
    """The admission to the policy's model server; None: the number of episodes at once is given.
    The caller lets it see the policy's requests."""
    if not settings.is_adaptive or not isinstance(policy, Observable):
        return None
    control = AdmissionControl(most=settings.max_concurrency)
    return AdaptiveAdmission(control, MetricsPoller(policy.base_url))


async def preflight(settings: Settings, asked: object) -> None:
    """Check the models of a policy or judge, if it has some. Raises ModelServerError."""
    if settings.model.preflight and isinstance(asked, Preflight):
        await asked.preflight()


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
    chaos: Chaos | None = None,
) -> AsyncIterator[RunParts]:
    """The parts of a run of so many episodes. Its worlds are hosted and its folder has run.toml.

    `policy` None: the settings name a policy that needs no opening. The caller opens and closes
    pool and policy. Raises SettingsError, LogError, ScenarioError and PoolError.
    """
    beginning = await anyio.to_thread.run_sync(beginning_of, settings, folder, tasks)
    await pool.host_all(scenario for scenario, _ in tasks)
    begin_folder(folder, settings, tasks, level=pool.level)
    async with AsyncExitStack() as stack:
        judge = None
        if open_judge is not None:
            scenarios = [scenario for scenario, _ in tasks]
            spent = spent_on_verdicts(folder) if resume else 0.0
            opened = open_judge(pool=pool, scenarios=scenarios, folder=folder, spent=spent)
            judge = await stack.enter_async_context(opened)
        parts = await make_parts(settings, pool, tasks, policy, judge, chaos)
        users = await stack.enter_async_context(users_of(settings, tasks))
        parts = msgspec.structs.replace(parts, beginning=beginning, users=users)
        if settings.bus.url:
            link = link_of(settings, folder, episodes, chaos)
            parts = msgspec.structs.replace(parts, link=link)
        yield parts


@asynccontextmanager
async def pool_of(
    settings: Settings,
    *,
    report_trusted: ReportTrusted = name_trusted,
    chaos: Chaos | None = None,
) -> AsyncIterator[RoutingPool]:
    """The pool of the settings. `report_trusted` gets the packages that run in this process; it
    names them on standard error. Raises PoolError and SettingsError."""
    worlds, call_timeout = settings.worlds, settings.limits.call_timeout
    workers = WorkerSettings(
        workers=worlds.workers or 0,
        memory_mb=worlds.worker_memory_mb,
        sandbox=worlds.sandbox,
    )
    if call_timeout is not None:
        workers = msgspec.structs.replace(workers, call_deadline=call_timeout)
    async with AsyncExitStack() as stack:
        remote: Pool | None = None
        if worlds.pool:
            token = os.environ.get("REHEARSE_TOKEN", "")
            leased = import_module("rehearsal_room.envpool.client.pool").RemotePool(
                worlds.pool, token=token
            )
            remote = await stack.enter_async_context(leased)
        elif worlds.mcp:
            remote = _mcp_pool(worlds)
        elif worlds.openenv:
            token = os.environ.get("REHEARSE_TOKEN", "")
            made = import_module("rehearsal_room.envpool.openenv.pool").OpenEnvPool(
                worlds.openenv, token=token
            )
            remote = await stack.enter_async_context(made)
        elif worlds.suite and suite(worlds.suite).adapter:
            remote = await stack.enter_async_context(_suite_pool(worlds))
        elif worlds.suite:
            remote = await stack.enter_async_context(_served_pool(worlds))
        pool = RoutingPool(
            workers,
            isolate=worlds.isolate,
            elsewhere=remote,
            report_trusted=report_trusted,
            open_spawner=open_fork_server if chaos is None else chaos.open_spawner,
        )
        yield await stack.enter_async_context(pool)


def _suite_pool(settings: WorldSettings) -> ObjectPool:
    """The pool of the suite's worlds, to be entered. Raises ScenarioError."""
    found, source = opened_suite(settings)
    program = ProgramSettings(found.adapter, source.options(), settings.suite_python)
    return ObjectPool(program)


def opened_suite(settings: WorldSettings) -> tuple[Suite, SuiteSource]:
    """The suite of the settings, and its data. Raises ScenarioError."""
    found = suite(settings.suite)
    flags = SuiteFlags(
        settings.suite_path, settings.suite_python, settings.mcp_env, settings.suite_servers
    )
    return found, found.open(flags)


def _served_pool(settings: WorldSettings) -> AbstractAsyncContextManager[Pool]:
    """The pool of a suite whose worlds are MCP servers, to be entered."""
    try:
        needs, pools = (
            import_module("rehearsal_room.envpool.served.needs"),
            import_module("rehearsal_room.envpool.served.pool"),
        )
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("mcp", exc, "mcp")) from exc
    served = needs.ServedSettings(settings.suite_python, settings.mcp_env)
    pool: AbstractAsyncContextManager[Pool] = pools.ServedPool(served)
    return pool


def _mcp_pool(settings: WorldSettings) -> Pool:
    try:
        link, pools = (
            import_module("rehearsal_room.envpool.mcp.client"),
            import_module("rehearsal_room.envpool.mcp.pool"),
        )
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("mcp", exc, "mcp")) from exc
    token = os.environ.get("REHEARSE_TOKEN", "")
    target = link.McpSettings(settings.mcp, token=token, environment=settings.mcp_env)
    pool: Pool = pools.McpPool(target)
    return pool


def tasks_reader(worlds: WorldSettings) -> Callable[[str], Scenario] | None:
    """A function that reads a file of tasks for the server of someone else's worlds; None: the
    settings name none. The function raises PackageError."""
    if worlds.mcp:
        return lambda path: read_mcp_tasks(Path(path), worlds.mcp)
    if worlds.openenv:
        return lambda path: read_openenv_tasks(Path(path), worlds.openenv)
    return None


def finder(settings: Settings) -> Callable[[str], Scenario]:
    """A function that finds the scenarios of these settings by name. Raises ScenarioError."""
    worlds = settings.worlds
    if (read := tasks_reader(worlds)) is not None:
        return read
    if worlds.suite:
        return SuiteFinder(*opened_suite(worlds)).find
    if worlds.awm:
        return AwmFolder(Path(worlds.awm), seeding=worlds.seeding).find
    return find


def planned(settings: Settings) -> tuple[list[tuple[Scenario, Task]], list[EpisodePlan]]:
    """The tasks and episodes of the settings. Raises SettingsError and ScenarioError."""
    if not settings.scenarios:
        raise SettingsError("scenarios: name at least one scenario")
    allowed = read_allow_list(Path(settings.allow)) if settings.allow else None
    tasks = select_tasks(
        *(_expanded(settings), finder(settings), allowed), dialogues=settings.dialogue
    )
    if not tasks and not settings.dialogue:
        raise SettingsError(
            "scenarios: no task is left to run without the dialogues; --dialogue plays them"
        )
    if settings.policy.name in ("oracle", "mutant"):
        _require_solutions(settings)
        for scenario, task in tasks:
            if task.kind == "open" and not task.oracle and scenario.suite is None:
                raise SettingsError(
                    f"policy: {settings.policy.name!r} plays the oracle of a task, and "
                    f"{scenario.name}:{task.id} has no oracle"
                )
    plans = plan_of(
        tasks,
        episodes=settings.episodes,
        group_size=settings.group_size,
        seed=seed_of(settings),
    )
    return tasks, list(plans)


def _require_solutions(settings: Settings) -> None:
    name = settings.worlds.suite
    if name and not suite(name).has_solutions:
        raise SettingsError(
            f"policy: suite {name!r} has no reference solutions that {settings.policy.name!r} "
            "could play; -p noop plays nothing, and -p scripted a file of calls"
        )


def _expanded(settings: Settings) -> Sequence[str]:
    """The scenarios of the settings; the category of a suite stands for all of its entries."""
    if not settings.worlds.suite:
        return settings.scenarios
    found, source = opened_suite(settings.worlds)
    return [
        name
        for one in settings.scenarios
        for name in (
            [scenario.name for scenario in source.scenarios(one)]
            if one in found.categories
            else [one]
        )
    ]


def described(
    settings: Settings, tasks: Sequence[tuple[Scenario, Task]], *, level: str = ""
) -> bytes:
    """run.toml for a new run of these settings. `level` is the sandbox of untrusted code; empty:
    there is no such code."""
    packages = {scenario.name: scenario.digest for scenario, _ in tasks}
    return save(settings, packages=packages, log_id=token_hex(8), sandbox=level)


def fresh_folder(settings: Settings) -> Path:
    """runs/<scenario>-<policy>-<number>, the first that does not exist yet."""
    first = Path(settings.scenarios[0].partition(":")[0]).name if settings.scenarios else "run"
    number = 1
    while (folder := Path("runs") / f"{first}-{settings.policy.name}-{number}").exists():
        number += 1
    return folder


def begin_folder(
    folder: Path, settings: Settings, tasks: Sequence[tuple[Scenario, Task]], *, level: str
) -> None:
    """Make a run's folder with its `run.toml`, where they are not there yet. Raises LogError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "run.toml").exists():
            write_atomically(folder / "run.toml", described(settings, tasks, level=level))
    except OSError as exc:
        raise LogError(f"{folder}: the run folder cannot be written: {exc}") from exc


async def make_parts(
    settings: Settings,
    pool: RoutingPool,
    tasks: Sequence[tuple[Scenario, Task]],
    client: OpenPolicy | None,
    judge: Judge | None,
    chaos: Chaos | None = None,
) -> RunParts:
    """The parts that play and judge episodes; with `chaos`, those that its faults hit are wrapped,
    and `client`, which is not open yet, too."""
    dialect = dialect_of(settings.dialect, lenient=settings.format.rules != "awm")
    policy = await policy_of(settings, client, dialect, pool, tasks)
    parts = RunParts(
        pool=pool,
        policy=policy,
        dialect=dialect,
        history=parse_history(settings.history),
        format=settings.format,
        limits=_limits_of(settings),
        judge=judge,
    )
    if chaos is None:
        return parts
    chaos.hit_requests(client)
    return msgspec.structs.replace(
        parts,
        pool=chaos.pool(pool),
        policy=chaos.policy(policy),
        open_database=chaos.database(parts.open_database),
        faults=chaos,
    )


def _limits_of(settings: Settings) -> Limits:
    """The limits that the episode loop enforces. Workers enforce a deadline for calls themselves
    (see pool_of)."""
    worlds = settings.worlds
    is_served = worlds.suite and not suite(worlds.suite).adapter
    is_remote = worlds.pool or worlds.mcp or worlds.openenv or is_served
    return msgspec.structs.replace(
        settings.limits,
        call_timeout=settings.limits.call_timeout if is_remote else None,
        world_stop=stops_with_world(settings),
    )


def warn_of_mismatches(settings: Settings, history: HistoryPolicy, console: Console) -> None:
    """Print a warning when a checkpoint is run under another history policy or dialect than it was
    trained in. Raises SettingsError for a model card that cannot be read."""
    if settings.policy.name not in ("local", "vllm"):
        return
    model = settings.model.name
    card = read_card(Path(model))
    if card is None:
        return
    for mismatch in card_mismatches(
        card, history=history.spec, fingerprint=history.fingerprint, dialect=settings.dialect
    ):
        console.print(
            Text.assemble(("WARNING", "bold red"), f" {printable(f'{model}: {mismatch}')}")
        )


def spent_on_verdicts(folder: Path) -> float:
    """What the judge of a run that is resumed has cost so far, in USD."""
    if not (folder / LOG_NAME).exists():
        return 0.0
    with open_reader(folder) as reader:
        return sum(row.judging.cost_usd or 0.0 for row in reader.episodes())


def has_episodes(folder: Path) -> bool:
    """Whether the folder has the log of a run in which anything happened.

    It is called after a failed run, so it does not fail itself: a log that cannot be read may hold
    something, unless its file is empty.
    """
    path = folder / LOG_NAME
    if not path.exists() or not path.stat().st_size:
        return False
    try:
        with open_reader(folder) as reader:
            return bool(reader.records_after(0, limit=1))
    except LogError:
        return True


def link_of(settings: Settings, folder: Path, episodes: int, chaos: Chaos | None = None) -> Link:
    """A function that makes the link which publishes the run's log on its broker."""

    def link_to(bus: MqttSettings) -> Link:
        return published_run(bus, folder, episodes=episodes, judge=settings.judge.mode)

    return link_to(settings.bus) if chaos is None else chaos.link(settings.bus, link_to)
