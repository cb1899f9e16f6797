"""The policy that the settings name.

Policies that hold resources while they act (connections, a model) are opened by the caller; the
others are made from the tasks, or from a file.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.agents.opening import NoModel, named_for_agent
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.policies.base import OpenPolicy, Policy
from rehearsal_room.harness.policies.latency import LatencyPolicy
from rehearsal_room.harness.policies.mutants import MutantPolicy
from rehearsal_room.harness.policies.noop import (
    ListingPolicy,
    NoopPolicy,
    PastingPolicy,
    RecitingPolicy,
)
from rehearsal_room.harness.policies.openai import OpenAIPolicy, OpenAISettings
from rehearsal_room.harness.policies.oracle import OraclePolicy, finds_its_place
from rehearsal_room.harness.policies.random_calls import RandomPolicy
from rehearsal_room.harness.policies.replay import ReplayPolicy
from rehearsal_room.harness.policies.scripted import ScriptedPolicy, read_script
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.settings.policy import think_range
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.scenarios.distribution import missing_package
from rehearsal_room.scenarios.format import Scenario, Task

OpenLocalPolicy = Callable[[Settings], OpenPolicy]  # makes policy `local`


def open_policy(
    settings: Settings, plans: Sequence[EpisodePlan], local_policy: OpenLocalPolicy | None
) -> OpenPolicy | None:
    """The policy, if it is one that must be opened; None: the settings name another. Raises
    SettingsError."""
    if settings.policy.name == "openai":
        return OpenAIPolicy(openai_settings(settings))
    if settings.policy.name == "local":
        if local_policy is None:
            raise SettingsError("policy: 'local' is not available here")
        return local_policy(settings)
    if settings.policy.name == "vllm":
        return _vllm(settings)
    if settings.policy.name == "human":
        raise SettingsError("policy: 'human' plays one episode at a time: rehearse play")
    if settings.policy.name == "replay":
        replayed = ReplayPolicy(Path(settings.policy.replay), settings.dialect_name)
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
    """The policy that acts: the opened one, or one made from tasks or a file, with the wrappers
    that the settings name. Raises SettingsError."""
    policy: Policy = opened or await _prepared_policy(settings, dialect, pool, tasks)
    if settings.policy.tokens:
        policy = _tokenized(policy, Path(settings.policy.tokens), dialect)
    if settings.policy.think:
        policy = LatencyPolicy(policy, *think_range(settings.policy.think), settings.seed)
    return named_for_agent(policy, settings.agent)


def openai_settings(settings: Settings) -> OpenAISettings:
    """The settings of policy `openai` in a run with these settings."""
    model = settings.model
    return OpenAISettings(
        model=model.name,
        base_url=model.base_url or None,
        temperature=model.temperature,
        top_p=model.top_p,
        max_tokens=model.max_tokens,
        seed=settings.seed,
        timeout_s=model.request_timeout,
        max_attempts=model.max_attempts,
        concurrency=settings.max_concurrency,
        client=model.client,
        max_connection_failures=model.max_connection_failures,
        answers=model.answers,
        stream=model.stream,
        stall_s=model.stall_timeout,
        adapt=model.adapt,
        extra=model.extra_fields,
    )


def _vllm(settings: Settings) -> OpenPolicy:
    try:
        from rehearsal_room.harness.setup.token_policies import vllm
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("policy: 'vllm'", exc, "tokens")) from exc
    return vllm(settings)


def _tokenized(policy: Policy, folder: Path, dialect: Dialect) -> Policy:
    try:
        from rehearsal_room.harness.setup.token_policies import tokenize
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("tokens", exc, "tokens")) from exc
    return tokenize(policy, folder, dialect)


async def _prepared_policy(
    settings: Settings,
    dialect: Dialect,
    pool: RoutingPool,
    tasks: Sequence[tuple[Scenario, Task]],
) -> Policy:
    """A policy whose actions follow from the tasks or from a file of calls."""
    if settings.policy.name == "agent":
        return NoModel()
    if settings.policy.name == "oracle":
        known = [one for one in tasks if settings.forked_from and finds_its_place(*one)]
        return OraclePolicy(dialect, await writes_in(pool, known) if known else None)
    if settings.policy.name == "noop":
        return NoopPolicy(dialect)
    if settings.policy.name == "recites":
        return RecitingPolicy(dialect)
    if settings.policy.name == "pastes":
        return PastingPolicy(dialect)
    if settings.policy.name == "lists":
        return ListingPolicy(dialect, tasks)
    if settings.policy.name == "random":
        return RandomPolicy(dialect)
    if settings.policy.name == "mutant":
        return MutantPolicy(dialect, await writes_in(pool, tasks))
    script = ScriptedPolicy(Path(settings.policy.script), dialect)
    script.require([(scenario.name, task.id) for scenario, task in tasks])
    return script


def unplayed_lines(settings: Settings, plans: Sequence[EpisodePlan]) -> str:
    """A note about the lines of a script that no episode plays; empty: each is played, or the
    policy is not `scripted`. Raises SettingsError."""
    if settings.policy.name != "scripted":
        return ""
    path = Path(settings.policy.script)
    lines = Counter((line.scenario, line.task) for _, line in read_script(path))
    played = {(plan.scenario.name, plan.task.id): plan.group_size for plan in plans}
    left_out = sum(max(0, count - played.get(task, 0)) for task, count in lines.items())
    if not left_out:
        return ""
    most = max((count for task, count in lines.items() if task in played), default=1)
    hint = f"; -g {most} plays every line of a task" if most > settings.group_size else ""
    return f"{path}: {left_out} of {lines.total()} lines are not played{hint}"


async def writes_in(
    pool: RoutingPool, tasks: Sequence[tuple[Scenario, Task]]
) -> Callable[[Scenario, Task], list[bool]]:
    """Which calls of each oracle change rows, found by executing the oracles once."""
    known: dict[tuple[str, str], list[bool]] = {}
    for scenario, task in tasks:
        async with pool.lease(scenario, task) as env:
            known[scenario.digest, task.id] = [
                bool((await env.call(call.name, call.arguments, f"c{index}-0")).changes)
                for index, call in enumerate(task.oracle)
            ]
    return lambda scenario, task: known[scenario.digest, task.id]
