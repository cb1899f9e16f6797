"""Rehearsal: a rehearsal room for tool-using agents.

    import rehearsal_room as rr

    async def agent(task: rr.TaskView, env: rr.AgentEnv) -> str:
        order = await env.call("get_order", {"order_id": 1042})
        return f"The order says: {order.text}"

    report = await rr.rehearse(agent, ["shop_support"], "runs/mine")

The names below are the public API. Everything else is internal and may change in any version.

run an agent of your own: `rehearse`, `AgentEnv`, `ForkedEnv`, `TaskView`, `Limits`, `Rehearsal`,
`StepLimit`, `WorldFailed`, `ModelFailed`

open a run whose episodes your program asks for: `OpenRun`, `BackgroundRun`, `RunOptions`,
`RunOverError`

read a log: `open_log`, `LogReader`, `Trajectory`, `StepTaken`, `Ending`, `Label`, `Judged`

judge: `ScenarioJudges`

load a world: `find_world`, `Scenario`, `Task`, `ToolResult`, `ToolSpec`

A name is imported when it is first used; until then the package imports none of its modules.
"""

from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rehearsal_room.bridges.asked_episodes import OpenRun as OpenRun
    from rehearsal_room.bridges.background import BackgroundRun as BackgroundRun
    from rehearsal_room.bridges.rehearsals import rehearse as rehearse
    from rehearsal_room.bridges.run_options import RunOptions as RunOptions
    from rehearsal_room.bridges.run_options import RunOverError as RunOverError
    from rehearsal_room.envpool.core.types import ToolResult as ToolResult
    from rehearsal_room.envpool.core.types import ToolSpec as ToolSpec
    from rehearsal_room.harness.agents.agent_env import AgentEnv as AgentEnv
    from rehearsal_room.harness.agents.agent_env import ForkedEnv as ForkedEnv
    from rehearsal_room.harness.agents.agent_env import StepLimit as StepLimit
    from rehearsal_room.harness.agents.agent_env import TaskView as TaskView
    from rehearsal_room.harness.agents.agent_env import WorldFailed as WorldFailed
    from rehearsal_room.harness.core.errors import PolicyError as ModelFailed  # noqa: F401
    from rehearsal_room.harness.core.events import Ending as Ending
    from rehearsal_room.harness.core.events import Judged as Judged
    from rehearsal_room.harness.core.events import Label as Label
    from rehearsal_room.harness.core.events import StepTaken as StepTaken
    from rehearsal_room.harness.core.trajectory import Trajectory as Trajectory
    from rehearsal_room.harness.library import Rehearsal as Rehearsal
    from rehearsal_room.harness.log.reader import LogReader as LogReader
    from rehearsal_room.harness.log.reader import open_reader as open_log  # noqa: F401
    from rehearsal_room.harness.settings.limits import Limits as Limits
    from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges as ScenarioJudges
    from rehearsal_room.scenarios.catalogue import find as find_world  # noqa: F401
    from rehearsal_room.scenarios.format import Scenario as Scenario
    from rehearsal_room.scenarios.format import Task as Task

# In a checkout the five packages lie in the repository's root, which comes first: files then have
# their real paths instead of those of the links beside this file. A sandboxed worker sees envpool
# but not harness, so envpool is the one to look for. In an installed wheel this does nothing.
_SOURCE = _Path(__file__).parent.parent
if _SOURCE.name == "src" and (_SOURCE.parent / "envpool" / "__init__.py").exists():
    __path__.insert(0, str(_SOURCE.parent))

# Name: the module that defines it, and its name there where that is another one.
_PUBLIC = {
    "AgentEnv": "harness.agents.agent_env",
    "BackgroundRun": "bridges.background",
    "Ending": "harness.core.events",
    "ForkedEnv": "harness.agents.agent_env",
    "Judged": "harness.core.events",
    "Label": "harness.core.events",
    "Limits": "harness.settings.limits",
    "LogReader": "harness.log.reader",
    "ModelFailed": "harness.core.errors:PolicyError",
    "OpenRun": "bridges.asked_episodes",
    "Rehearsal": "harness.library",
    "RunOptions": "bridges.run_options",
    "RunOverError": "bridges.run_options",
    "Scenario": "scenarios.format",
    "ScenarioJudges": "judge.verdicts.code_judges",
    "StepLimit": "harness.agents.agent_env",
    "StepTaken": "harness.core.events",
    "Task": "scenarios.format",
    "TaskView": "harness.agents.agent_env",
    "ToolResult": "envpool.core.types",
    "ToolSpec": "envpool.core.types",
    "Trajectory": "harness.core.trajectory",
    "WorldFailed": "harness.agents.agent_env",
    "find_world": "scenarios.catalogue:find",
    "open_log": "harness.log.reader:open_reader",
    "rehearse": "bridges.rehearsals",
}


def __getattr__(name: str) -> object:
    """A public name, imported now (PEP 562)."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, there = _PUBLIC[name].partition(":")
    value = getattr(_import_module(f"{__name__}.{module}"), there or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(_PUBLIC)
