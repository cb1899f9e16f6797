"""The users that the settings ask for."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.policies.noop import LAZY
from rehearsal_room.harness.policies.openai import OpenAIPolicy, OpenAISettings
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.users.base import UserSource
from rehearsal_room.harness.users.scripted import TaskUsers
from rehearsal_room.harness.users.simulated import SimulatedUsers
from rehearsal_room.scenarios.core.dialogue import ModelUser, UserAutomaton
from rehearsal_room.scenarios.format import Scenario, Task

NO_SEED = "without:seed"
_SOLVES = ("oracle", "mutant")  # policies that play a reference solution, the user's part too
_SILENT = ("noop", "random", *LAZY)  # policies to which a user would have nothing to say


@asynccontextmanager
async def users_of(
    settings: Settings, tasks: Sequence[tuple[Scenario, Task]]
) -> AsyncIterator[UserSource]:
    """Open the users of a run. Raises SettingsError where a model must play them and none is named,
    and ModelServerError where its server does not answer."""
    policy = settings.policy.name
    rewords = settings.user.reword
    asked_for = (ModelUser, UserAutomaton) if rewords else ModelUser
    asks = any(isinstance(task.user, asked_for) for _, task in tasks)
    if not asks or policy in _SOLVES or policy in _SILENT:
        yield TaskUsers(plays_solutions=policy in _SOLVES)
        return
    if not settings.user.name:
        raise SettingsError(
            "user_model: a model plays the user of these tasks: name it with --user-model (and its "
            "server with --user-base-url)"
        )
    model = settings.model
    asked = OpenAISettings(
        model=settings.user.name,
        base_url=settings.user.base_url or None,
        temperature=settings.user.temperature,
        seed=settings.seed,
        timeout_s=model.request_timeout,
        max_attempts=model.max_attempts,
        concurrency=settings.max_concurrency,
        client=model.client,
        max_connection_failures=model.max_connection_failures,
        answers=model.answers,
        adapt=tuple([one for one in model.adapt if one == NO_SEED]),  # it is about both models
    )
    async with SimulatedUsers(OpenAIPolicy(asked), rewords=rewords) as users:
        if model.preflight:
            await users.preflight()
        yield users
