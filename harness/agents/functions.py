"""An agent that is a function of the user's: `MODULE:FUNCTION`, sync or async.

    async def agent(task, env): ...     # the world by env.call
    def agent(task, env): ...           # the same without await, in a thread of its own
    def agent(task): ...                # the world by task.mcp_url, the model by task.model_url

A thread cannot be ended: where a limit ends the episode of a sync function, the thread is left
alone, and its calls are refused from then on.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.agents.agent_env import AgentEnv, AgentFunction, TaskView
from rehearsal_room.harness.core.errors import SettingsError


class SyncAgentEnv:
    """The world of one episode, for an agent in a thread (see AgentEnv)."""

    def __init__(self, env: AgentEnv) -> None:
        self._env = env
        self._token = anyio.lowlevel.current_token()

    def __repr__(self) -> str:
        return f"<SyncAgentEnv of {self._env!r}>"

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools, in the order in which they are shown."""
        return self._env.tools

    def call(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
        """Call a tool (see AgentEnv.call)."""
        return anyio.from_thread.run(self._env.call, name, arguments, token=self._token)

    def say(self, text: str) -> str | None:
        """Say something to the user of a dialogue (see AgentEnv.say)."""
        return anyio.from_thread.run(self._env.say, text, token=self._token)


def load_agent(target: str) -> AgentFunction:
    """The agent function that a target names, as the driver calls it. Raises SettingsError where it
    is not there or has another shape."""
    name, _, path = target.partition(":")
    found = _module(name, target)
    for part in path.split("."):
        if not hasattr(found, part):
            raise SettingsError(f"agent: {target!r}: {name} has no {path!r}")
        found = getattr(found, part)
    return agent_function(found, target)


def agent_function(function: Any, target: str) -> AgentFunction:
    """A function of any of the shapes as the driver calls it. Raises SettingsError."""
    if not callable(function):
        raise SettingsError(f"agent: {target!r} is a {type(function).__name__}, not a function")
    takes = _num_parameters(function, target)
    if _is_async(function):
        return function if takes == 2 else partial(_with_task_alone, function)

    async def in_thread(task: TaskView, env: AgentEnv) -> str:
        arguments = (task, SyncAgentEnv(env)) if takes == 2 else (task,)
        run = partial(function, *arguments)
        answer = await _in_thread(run)
        if inspect.isawaitable(answer):
            answer = await answer
        return answer  # type: ignore[no-any-return]  # the driver checks it

    return in_thread


async def _in_thread(run: Callable[[], Any]) -> Any:
    """What a function returns in a thread of its own. The thread is a daemon, so that one that
    never ends does not keep the process from its end, as anyio's threads do."""
    token, ended = anyio.lowlevel.current_token(), anyio.Event()
    returned: list[Any] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            returned.append(run())
        except BaseException as exc:  # a program may end with sys.exit
            raised.append(exc)
        with suppress(RuntimeError):  # the run has ended before
            anyio.from_thread.run_sync(ended.set, token=token)

    Thread(target=copy_context().run, args=(work,), name="agent", daemon=True).start()
    await ended.wait()
    if raised:
        raise raised.pop()
    return returned.pop()


async def _with_task_alone(function: Callable[[TaskView], Any], task: TaskView, _: AgentEnv) -> str:
    return await function(task)  # type: ignore[no-any-return]  # the driver checks it


def _module(name: str, target: str) -> Any:
    """The module, by its name or by its file, found from the current folder too."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        if name.endswith(".py"):
            return _module_of_file(Path(name), target)
        return importlib.import_module(name)
    except SettingsError:
        raise
    except ModuleNotFoundError as exc:
        missing = "it" if exc.name == name else f"{exc.name!r}, which it imports,"
        raise SettingsError(
            f"agent: {target!r}: {missing} is not there (looked in {here} and in the installed "
            "packages)"
        ) from exc
    except Exception as exc:
        raise SettingsError(
            f"agent: {target!r} cannot be imported: {type(exc).__name__}: {exc}"
        ) from exc


def _module_of_file(path: Path, target: str) -> Any:
    if not path.is_file():
        raise SettingsError(f"agent: {target!r}: there is no file {path}")
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path.resolve()):
        return known
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _num_parameters(function: Any, target: str) -> int:
    """How many arguments the function gets. Raises SettingsError."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return 2  # of a built-in function: the call decides
    for takes in (2, 1):
        try:
            signature.bind(*range(takes))
        except TypeError:
            continue
        return takes
    raise SettingsError(
        f"agent: {target!r} has the parameters {signature}; expected (task, env) or (task)"
    )


def _is_async(function: Any) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004 - of an object with this method
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
