"""What the episodes of an open run share (see bridges.open_run), and its tasks."""

from collections.abc import Sequence

import msgspec

from rehearsal_room.harness.agents.opening import check_agent
from rehearsal_room.harness.core.errors import HarnessError, SettingsError
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.base import HistoryWindow
from rehearsal_room.harness.history.last_turns import FullWindow
from rehearsal_room.harness.library import JudgeFactory
from rehearsal_room.harness.policies.base import Policy
from rehearsal_room.harness.policies.noop import NoopPolicy
from rehearsal_room.harness.rollout.plan import names_of, select_tasks
from rehearsal_room.harness.settings.agent import AgentSettings, require_agent_formats
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.scenarios.format import Scenario, Task

TasksByName = dict[str, tuple[Scenario, Task]]  # by name, as in `shop_support:cancel-duplicate`
PATIENT = Limits(reply_timeout=None)  # trainers let episodes wait while others sample


class RunOverError(HarnessError):
    """The run was closed, or its judge or log failed, before the episode was finished."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What all episodes of an open run share."""

    judge: JudgeFactory | None = None  # None: the episodes stay unjudged
    policy: Policy = msgspec.field(default_factory=lambda: NoopPolicy(Native()))
    dialect: Dialect = msgspec.field(default_factory=Native)
    history: HistoryWindow = msgspec.field(default_factory=FullWindow)
    format: FormatSettings = FormatSettings()
    limits: Limits = PATIENT
    seed: int = 0
    # An agent of your own, as `--agent` names it, or with more of its settings: it plays where a
    # trainer's model is asked, and finds that model at its URL. Empty: the model acts turn by turn.
    agent: str | AgentSettings = ""

    @property
    def own_agent(self) -> AgentSettings:
        """The settings of the agent; without a target there is none."""
        return AgentSettings(self.agent) if isinstance(self.agent, str) else self.agent


def check_options(options: RunOptions) -> None:
    """Check the agent of these options. Raises SettingsError where it is not there, or is not
    played in this dialect or under this history."""
    if options.own_agent.target:
        check_agent(options.own_agent)
        require_agent_formats(options.dialect.name, options.history.spec)


def tasks_of(scenarios: str | Sequence[str]) -> TasksByName:
    """The tasks of scenarios given as `name`, `path` or `name:task`, by name. Raises ScenarioError
    and SettingsError."""
    names = names_of(scenarios)
    found = {
        f"{scenario.name}:{task.id}": (scenario, task) for scenario, task in select_tasks(names)
    }
    if not found:
        raise SettingsError(f"scenarios: {', '.join(names) or 'the empty list'} has no task")
    return found
