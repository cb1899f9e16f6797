"""Which policy the settings name.

Policies that hold something while they play (connections, a model) are opened by whoever runs them;
the others are made of the task's own words, or of a file.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from envpool.router import RoutingPool
from harness.core.errors import SettingsError
from harness.dialects.base import Dialect
from harness.policies.base import OpenPolicy, Policy
from harness.policies.latency import LatencyPolicy
from harness.policies.mutants import MutantPolicy
from harness.policies.noop import NoopPolicy
from harness.policies.openai import OpenAIPolicy, OpenAISettings
from harness.policies.oracle import OraclePolicy
from harness.policies.random_calls import RandomPolicy
from harness.policies.replay import ReplayPolicy
from harness.policies.scripted import ScriptedPolicy
from harness.rollout.plan import EpisodePlan
from harness.settings.run import Settings, think_range
from scenarios.format import Scenario, Task

LocalPolicy = Callable[[Settings], OpenPolicy]  # makes policy `local`


def open_policy(
    settings: Settings, plans: Sequence[EpisodePlan], local_policy: LocalPolicy | None
) -> OpenPolicy | None:
    """The policy, if it is one that holds something while it plays; None: the settings name
    another. Raises SettingsError."""
    if settings.policy == "openai":
        return _openai(settings)
    if settings.policy == "local":
        if local_policy is None:
            raise SettingsError("policy: 'local' cannot be had here")
        return local_policy(settings)
    if settings.policy == "vllm":
        made: OpenPolicy = _with_tokens("policy: 'vllm'").vllm(settings)
        return made
    if settings.policy == "replay":
        replayed = ReplayPolicy(Path(settings.replay), settings.dialect)
        replayed.require([(plan.scenario.name, plan.task.id) for plan in plans])
        return replayed
    return None


async def policy_of(
    settings: Settings,
    opened: OpenPolicy | None,
    dialect: Dialect,
    pool: RoutingPool,
    tasks: Sequence[tuple[Scenario, Task]],
) -> Policy:
    """What plays: the opened policy where there is one, with all that the settings put around it.
    Raises SettingsError."""
    policy: Policy = opened or await _player(settings, dialect, pool, tasks)
    if settings.tokens:
        policy = _with_tokens("tokens: it").tokenised(policy, Path(settings.tokens))
    if settings.think:
        policy = LatencyPolicy(policy, *think_range(settings.think), settings.seed)
    return policy


def _openai(settings: Settings) -> OpenAIPolicy:
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


def _with_tokens(what: str) -> Any:
    """The module of those that need a tokenizer. Raises SettingsError where there is none."""
    try:
        return import_module("harness.rollout.token_policies")
    except ModuleNotFoundError as exc:
        raise SettingsError(
            f"{what} needs the package {exc.name}: pip install 'rehearsal[tokens]'"
        ) from exc


async def _player(
    settings: Settings,
    dialect: Dialect,
    pool: RoutingPool,
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
        return MutantPolicy(dialect, await _writes_of(pool, tasks))
    script = ScriptedPolicy(Path(settings.script), dialect)
    script.require([(scenario.name, task.id) for scenario, task in tasks])
    return script


async def _writes_of(
    pool: RoutingPool, tasks: Sequence[tuple[Scenario, Task]]
) -> Callable[[Scenario, Task], list[bool]]:
    """Which calls of each oracle change rows, found by making them once."""
    known: dict[tuple[str, str], list[bool]] = {}
    for scenario, task in tasks:
        async with pool.lease(scenario, task) as env:
            known[scenario.digest, task.id] = [
                bool((await env.call(call.name, call.arguments, f"c{index}-0")).changes)
                for index, call in enumerate(task.oracle)
            ]
    return lambda scenario, task: known[scenario.digest, task.id]
