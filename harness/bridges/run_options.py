"""What the episodes of an open run share (see harness.bridges.open_run), and its tasks."""

from collections.abc import Sequence

import msgspec

from harness.core.errors import HarnessError, SettingsError
from harness.dialects.base import Dialect
from harness.dialects.format_rules import FormatSettings
from harness.dialects.native import Native
from harness.history.base import HistoryPolicy
from harness.history.last_turns import Full
from harness.library import JudgeFactory
from harness.policies.base import Policy
from harness.policies.noop import NoopPolicy
from harness.rollout.plan import select_tasks
from harness.settings.limits import Limits
from scenarios.format import Scenario, Task

Tasks = dict[str, tuple[Scenario, Task]]  # by name, as in `shop_support:cancel-duplicate`
PATIENT = Limits(reply_timeout=None)  # trainers let episodes wait while others sample


class RunOverError(HarnessError):
    """The run was closed, or its judge or log failed, before the episode was finished."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What all episodes of an open run share."""

    judge: JudgeFactory | None = None  # None: the episodes stay unjudged
    policy: Policy = msgspec.field(default_factory=lambda: NoopPolicy(Native()))
    dialect: Dialect = msgspec.field(default_factory=Native)
    history: HistoryPolicy = msgspec.field(default_factory=Full)
    format: FormatSettings = FormatSettings()
    limits: Limits = PATIENT
    seed: int = 0


def tasks_of(scenarios: Sequence[str]) -> Tasks:
    """The tasks of scenarios given as `name`, `path` or `name:task`, by name. Raises ScenarioError
    and SettingsError."""
    found = {
        f"{scenario.name}:{task.id}": (scenario, task) for scenario, task in select_tasks(scenarios)
    }
    if not found:
        raise SettingsError(f"scenarios: {', '.join(scenarios) or 'the empty list'} has no task")
    return found
