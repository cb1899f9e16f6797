"""Running what the settings say: the parts chosen, the folder made, the session run.

The roof hands in what this package may not know: `court_of`, which makes the judge of a run.
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from typing import Any

import anyio.to_thread
import msgspec
from rich.console import Console

from envpool.local import LocalPool
from harness.config import Settings, log_id_of, saved, think_range
from harness.dialects.base import Dialect
from harness.dialects.choose import dialect_of
from harness.dialects.rules import FormatSettings
from harness.episode import Limits
from harness.errors import LogError, SettingsError
from harness.history import parse_history
from harness.log_reader import open_reader
from harness.meters import Meters
from harness.mqtt import MqttLink
from harness.mqtt_settings import broker_of
from harness.plan import EpisodePlan, chosen_tasks, plan_of
from harness.policies.base import Policy
from harness.policies.mutants import MutantPolicy
from harness.policies.noop import NoopPolicy
from harness.policies.openai import OpenAIPolicy, OpenAISettings
from harness.policies.oracle import OraclePolicy
from harness.policies.random_calls import RandomPolicy
from harness.policies.scripted import ScriptedPolicy
from harness.policies.think import ThinkPolicy
from harness.process import allow_many_files, run
from harness.session import Court, Link, Parts, run_session
from harness.store import LOG_NAME, write_atomically
from harness.tuning import tune_memory
from scenarios.format import Scenario, Task

CourtOf = Callable[[LocalPool, Sequence[Scenario]], Court]


class Launched(msgspec.Struct, frozen=True):
    """What is left of a run besides its log. The pool is the caller's to close."""

    meters: Meters
    pool: LocalPool
    policy: dict[str, float]  # the policy's own statistics, where it has some


def launch(settings: Settings, folder: Path, *, resume: bool, court_of: CourtOf) -> Launched:
    """Run what the settings say into a folder; progress goes to standard error.

    A run that fails before its first fact leaves no folder. Raises HarnessError, ScenarioError and
    PoolError.
    """
    if (folder / LOG_NAME).exists() and not resume:
        raise LogError(f"{folder}: there is a run already; --resume goes on, or name another")
    tasks, plans = planned(settings)
    pool = LocalPool()
    for scenario, _ in tasks:
        pool.host(scenario)
    client = _client(settings) if settings.policy == "openai" else None
    parts = _parts(settings, pool, tasks, client, court_of)
    if settings.bus:
        broker_of(msgspec.structs.replace(settings.mqtt, url=settings.bus))  # before any file is
    is_new = not folder.exists()
    _begin(folder, settings, tasks)
    if settings.bus:
        parts = msgspec.structs.replace(parts, link=_link(settings, folder, len(plans)))
    allow_many_files(settings.concurrency + 256)
    tune_memory()
    meters = Meters()
    try:
        run(_session, folder, plans, parts, settings.concurrency, meters, resume, client)
    except Exception:
        if is_new and not _has_episodes(folder):
            rmtree(folder)
        raise
    return Launched(meters, pool, {} if client is None else client.statistics())


def planned(settings: Settings) -> tuple[list[tuple[Scenario, Task]], list[EpisodePlan]]:
    """The tasks and episodes of the settings. Raises SettingsError and ScenarioError."""
    if not settings.scenarios:
        raise SettingsError("scenarios: name at least one scenario")
    tasks = chosen_tasks(settings.scenarios)
    plans = plan_of(
        tasks,
        episodes=settings.episodes,
        group_size=settings.group_size,
        seed=settings.seed,
    )
    return tasks, list(plans)


def described(settings: Settings, tasks: Sequence[tuple[Scenario, Task]]) -> bytes:
    """run.toml for a new run of these settings."""
    packages = {scenario.name: scenario.digest for scenario, _ in tasks}
    return saved(settings, packages=packages, log_id=token_hex(8))


def fresh_folder(settings: Settings) -> Path:
    """runs/<scenario>-<policy>-<number>, the first that is not there yet."""
    first = Path(settings.scenarios[0].partition(":")[0]).name if settings.scenarios else "run"
    number = 1
    while (folder := Path("runs") / f"{first}-{settings.policy}-{number}").exists():
        number += 1
    return folder


def _begin(folder: Path, settings: Settings, tasks: Sequence[tuple[Scenario, Task]]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "run.toml").exists():
            write_atomically(folder / "run.toml", described(settings, tasks))
    except OSError as exc:
        raise LogError(f"{folder}: the run folder cannot be written: {exc}") from exc


def _parts(
    settings: Settings,
    pool: LocalPool,
    tasks: Sequence[tuple[Scenario, Task]],
    client: OpenAIPolicy | None,
    court_of: CourtOf,
) -> Parts:
    dialect = dialect_of(settings.dialect, mend=settings.format_rules != "awm")
    policy: Policy = client or _player(settings, dialect, pool, tasks)
    if settings.think:
        policy = ThinkPolicy(policy, *think_range(settings.think), settings.seed)
    scenarios = [scenario for scenario, _ in tasks]
    return Parts(
        pool=pool,
        policy=policy,
        dialect=dialect,
        history=parse_history(settings.history),
        format=FormatSettings(
            rules=settings.format_rules, reward=settings.format_reward, stop=settings.format_stop
        ),
        limits=Limits(
            max_steps=settings.max_steps,
            token_limit=settings.token_limit,
            time_limit=settings.time_limit,
            reply_timeout=settings.reply_timeout,
            call_timeout=settings.call_timeout,
        ),
        judge=court_of(pool, scenarios) if settings.judge == "code" else None,
    )


async def _session(
    folder: Path,
    plans: Sequence[EpisodePlan],
    parts: Parts,
    concurrency: int,
    meters: Meters,
    resume: bool,
    client: OpenAIPolicy | None,
) -> None:
    async with AsyncExitStack() as stack:
        if client is not None:
            await stack.enter_async_context(client)
        await run_session(
            folder,
            plans,
            parts,
            concurrency=concurrency,
            meters=meters,
            resume=resume,
            console=Console(stderr=True),
        )


def _has_episodes(folder: Path) -> bool:
    if not (folder / LOG_NAME).exists():
        return False
    with open_reader(folder) as reader:
        return bool(reader.records_after(0, limit=1))


def _client(settings: Settings) -> OpenAIPolicy:
    return OpenAIPolicy(
        OpenAISettings(
            model=settings.model,
            base_url=settings.base_url or None,
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_tokens=settings.max_tokens,
            seed=settings.seed,
            timeout_s=settings.request_timeout,
            max_attempts=settings.max_attempts,
            concurrency=settings.concurrency,
            client=settings.client,
        )
    )


def _player(
    settings: Settings,
    dialect: Dialect,
    pool: LocalPool,
    tasks: Sequence[tuple[Scenario, Task]],
) -> Policy:
    """The policies that play what somebody wrote down."""
    if settings.policy == "oracle":
        return OraclePolicy(dialect)
    if settings.policy == "noop":
        return NoopPolicy(dialect)
    if settings.policy == "random":
        return RandomPolicy(dialect)
    if settings.policy == "mutant":
        return MutantPolicy(dialect, _writes_of(pool))
    script = ScriptedPolicy(Path(settings.script), dialect)
    script.require([(scenario.name, task.id) for scenario, task in tasks])
    return script


def _writes_of(pool: LocalPool) -> Callable[[Scenario, Task], list[bool]]:
    """Which calls of an oracle change rows, found by making them once."""
    known: dict[tuple[str, str], list[bool]] = {}

    def writes(scenario: Scenario, task: Task) -> list[bool]:
        key = (scenario.digest, task.id)
        if key not in known:
            lease = pool.host(scenario).lease()
            known[key] = [
                bool(lease.call(call.name, call.arguments).changes) for call in task.oracle
            ]
        return known[key]

    return writes


def _link(settings: Settings, folder: Path, episodes: int) -> Link:
    """Publishes the run's log on the broker of the settings."""

    async def history(after: int) -> Any:
        def read() -> Any:
            with open_reader(folder) as reader:
                return reader.records_after(after)

        return await anyio.to_thread.run_sync(read)

    broker = msgspec.structs.replace(settings.mqtt, url=settings.bus)
    log_id = log_id_of(folder / "run.toml")

    def link(position: int) -> MqttLink:
        with open_reader(folder) as reader:
            counts = reader.counts()
        return MqttLink(
            broker,
            folder.name,
            log=log_id,
            history=history,
            position=position,
            counts=counts,
            episodes=episodes,
            digest=blake2b((folder / "run.toml").read_bytes(), digest_size=8).hexdigest(),
        )

    return link
