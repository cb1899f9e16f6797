"""The module state of generated code, separate for each world.

AWM runs a process for each world, so what its code stores in globals, class attributes, caches and
closures belongs to that world alone. Here many worlds share a module: its state is captured after
each call and restored before the world's next one, in whichever worker.

What is state is determined once, when the code is loaded. An object that functions may change stays
the same object and its content is exchanged, so that every reference to it (another global, a
closure, a default) stays valid, and what was shared stays shared. Names that functions assign get
their values exchanged. Objects in which functions only look things up are left alone, and code
without state, which is nearly all, costs nothing.

Never state: functions, classes, modules, loggers, locks (released after each call), and the objects
of SQLAlchemy, FastAPI, Starlette and Pydantic that make up the application. A global Session is
closed after each call: what was not committed is gone.
The iteration order of a set from which elements were removed may differ from that in a separate
process; it is the same in whichever worker the world continues.
Refused: an open file, a generator, a thread or anything else that pickle cannot serialize or that
pickled state may not name (see envpool.hosting.determinism.state_pickle), where functions may reach
it. Not found: state in other libraries, and names that the text hides (see
envpool.hosting.determinism.mutation_analysis).
"""

import ast
import linecache
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.hosting.determinism.mutation_analysis import Uses, uses_of
from rehearsal_room.envpool.hosting.determinism.state_discovery import discover_state
from rehearsal_room.envpool.hosting.determinism.state_pickle import dump_state, load_state
from rehearsal_room.envpool.hosting.determinism.state_slots import (
    Content,
    EnvironmentSlot,
    StateSlot,
)

MAX_STATE = 2**20  # bytes


class ModuleState:
    """The state of a loaded module, exchanged between worlds.

    `module` is in sys.modules under its name, which is the same in every worker. `uses` is what its
    functions do to names; None: it is found out from the module's text (linecache). Raises
    ToolsetError for state that cannot be isolated.
    """

    def __init__(self, module: ModuleType, uses: Uses | None = None) -> None:
        if uses is None:
            uses = uses_of(ast.parse("".join(linecache.getlines(str(module.__file__)))))
        found = discover_state(module, uses)
        self._module = module
        self._name = str(module.__file__ or module.__name__)
        self._slots: tuple[StateSlot, ...] = tuple(found.slots)
        self._environments = [slot for slot in self._slots if isinstance(slot, EnvironmentSlot)]
        self._resets = tuple(found.resets)
        self._persistent: list[Any] = found.persistent  # pickled state refers to them by position
        self._positions = {id(value): position for position, value in enumerate(self._persistent)}
        self.stateless = not self._slots and not self._resets
        self.notes = tuple(f"isolated for each world: {slot.name}" for slot in self._slots)
        self._current: bytes | None = None  # the state in the module now; None: not known
        self._restored = b""  # the state of the last `restore`
        self._start = b""
        if self._slots:
            self.restore(self.capture())  # so that the first call starts as in other workers
            self._start = self.capture()
            self._current = None  # other owners of the module may still change it

    def __repr__(self) -> str:
        return f"<ModuleState of {self._name} [{len(self._slots)} slots, {len(self._start)} bytes]>"

    def capture(self) -> bytes:
        """The current state, for `restore` here or in another worker; empty when there is none.

        Raises ToolsetError when it has an object that cannot be isolated, or more than 1 MiB.
        """
        for reset in self._resets:
            reset()
        if not self._slots:
            return b""
        state = self._pickle([slot.content() for slot in self._slots])
        if len(state) > MAX_STATE:
            raise ToolsetError(
                f"{self._name}: its module state has {len(state)} bytes, "
                f"and a world may have at most {MAX_STATE}"
            )
        for slot in self._environments:
            slot.leave()
        if state != self._restored:
            return state
        self._current = None if self._environments else self._restored
        return self._restored

    def restore(self, state: bytes) -> None:
        """Restore a world's state; empty: the state after loading.

        Every call begins with unpickled objects, even if the world's own objects still exist: a set
        among those may have another iteration order.
        """
        state = state or self._start
        current, self._current = self._current, None  # until `capture` finds it unchanged
        if not self._slots or state == current:
            return
        try:
            contents = load_state(state, self._module, self._persistent)
            for slot, content in zip(self._slots, contents, strict=True):
                slot.put(content)
        except Exception as exc:
            why = f"a world's module state cannot be read: {_exception_text(exc)}"
            raise ToolsetError(f"{self._name}: {why}") from exc
        self._restored = state

    def _pickle(self, contents: list[Content]) -> bytes:
        try:
            return self._dump(contents)
        except Exception as exc:
            name, why = self._first_unpicklable(contents) or ("its module state", exc)
            raise ToolsetError(
                f"{self._name}: {name} cannot be isolated between worlds: {_exception_text(why)}"
            ) from exc

    def _dump(self, contents: Iterable[Content]) -> bytes:
        return dump_state(contents, self._module, self._positions.get)

    def _first_unpicklable(self, contents: list[Content]) -> tuple[str, Exception] | None:
        """The name of the first slot whose content cannot be pickled, and the exception."""
        for slot, content in zip(self._slots, contents, strict=True):
            try:
                self._dump([content])
            except Exception as exc:
                return slot.name, exc
        return None


def _exception_text(exc: Exception) -> str:
    try:
        text = str(exc)
    except Exception:
        text = ""
    return text.encode(errors="replace").decode()[:300] or type(exc).__name__
