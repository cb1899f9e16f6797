"""Host a package in our format in a worker: code from texts, the world's time and randomness.

Worlds share the module state of its code: a package has to store its state in its database.
"""

from collections.abc import Callable
from typing import Any

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.envpool.hosting.determinism.clock import frozen_clock, seed_random
from rehearsal_room.envpool.hosting.determinism.threads import Threads
from rehearsal_room.envpool.hosting.live_world import LiveWorld
from rehearsal_room.envpool.inprocess.toolset import Tool, load
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.envpool.store.overlay import PAGE
from rehearsal_room.envpool.store.template import Template, make_vfs, template_of
from rehearsal_room.scenarios.format import Scenario


class PackageHost:
    """A hosted package. `close()` closes its connections.

    `source` is the text of tools.py; no file is read. `image` is the seeded database when another
    worker built it; empty: it is built here.
    Raises SeedError and ToolsetError.
    """

    module_state = b""
    num_statements = 0
    seed_faults: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()

    def __init__(self, scenario: Scenario, source: str, image: bytes = b"") -> None:
        self._scenario = scenario
        self._source = source
        self._threads = Threads()
        self._world = HostedScenario(
            scenario,
            tools=self._load(),
            template=_template(scenario, image) if image else None,
        )

    @property
    def template(self) -> Template:
        """The seeded database."""
        return self._world.template

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools, in the order in which agents see them."""
        return self._world.tools

    def call(self, world: LiveWorld, name: str, arguments: Any) -> ToolResult:
        """Execute one call on a world and update the world. Invalid calls give results, too."""
        num_calls = world.num_calls
        world.num_calls += 1
        with frozen_clock(self._scenario.clock, num_calls):
            seed_random(self._scenario.digest, num_calls)
            result = self._world.call(world.overlay, name, arguments)
            self._threads.check()  # the worker itself reports threads that still run
        return result

    def close(self) -> None:
        """Close the connections; worlds become unusable."""
        self._world.close()

    def _load(self) -> dict[str, Tool]:
        scenario = self._scenario
        path = scenario.path / "tools.py"
        with frozen_clock(scenario.clock):
            seed_random(scenario.digest, -1)
            try:
                tools = load(scenario, self._source)
            except Exception:
                raise
            except BaseException as exc:
                raise ToolsetError(f"{path}: {_builtin_name(exc)}") from exc
            fault = self._threads.check()
        if fault:
            raise ToolsetError(f"{path}: {fault}")
        for tool in tools.values():
            tool.function = _guard(tool.function)
        return tools


def _template(scenario: Scenario, image: bytes) -> Template:
    vfs = make_vfs(scenario)
    try:
        pages = tuple(image[at : at + PAGE] for at in range(0, len(image), PAGE))
        return template_of(pages, vfs, scenario.path / "schema.sql")
    finally:
        vfs.unregister()


def _guard(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a guard against hostile exceptions and results.

    A world relies on tools that raise exceptions with readable messages and return plain texts.
    """

    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            value = function(*args, **kwargs)
        except Exception as exc:
            if _has_plain_text(exc):
                raise
            raise RuntimeError(f"the text of its {_builtin_name(exc)} is not available") from None
        except BaseException as exc:
            raise RuntimeError(f"it raised {_builtin_name(exc)}") from exc
        return str.__str__(value) if issubclass(type(value), str) else value

    return guarded


def _has_plain_text(exc: Exception) -> bool:
    try:
        return type(str(exc)) is str and type(type(exc).__name__) is str
    except BaseException:
        return False


def _builtin_name(exc: BaseException) -> str:
    """The name of the exception's first built-in class, which the package's code cannot choose."""
    return next(base.__name__ for base in type(exc).__mro__ if base.__module__ == "builtins")
