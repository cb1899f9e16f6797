"""The module state of generated code, one for each world.

AWM runs a process for each world, so what its code keeps in globals, class attributes, caches and
closures belongs to that world alone. Here many worlds share a module: its state is taken out after
a call and put back before the world's next one, wherever that is.

What is state is found once, when the code is loaded. Objects that functions may change are
`kept`: the object stays the same and its content is exchanged, so whoever holds it (another
global, a closure, a default) goes on seeing it, and what was shared stays shared. Names that
functions assign are exchanged themselves. What functions only look things up in is left alone,
and code without state, which is nearly all, costs nothing.

Never state: functions, classes, modules, loggers, locks (left open after each call), and the
objects of SQLAlchemy, FastAPI, Starlette and Pydantic that make up the application. A global
Session is closed after each call: what was not committed is gone.
What a set gives first, after things were taken out of it, may differ from a process of its own; it
is the same wherever the world goes on.
Refused: an open file, a generator, a thread or anything else that pickle cannot take, where
functions may reach it. Not seen: state in other libraries, and names that are hidden from the text
(see envpool.hosting.determinism.mutation_analysis).
"""

import io
import pickle
import threading
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from envpool.core.errors import ToolsetError
from envpool.hosting.determinism.state_discovery import survey
from envpool.hosting.determinism.state_slots import Content, Environment, Place

MAX_STATE = 2**20  # bytes
_PROTOCOL = 5


class Memory:
    """The state of a module that has been loaded, exchanged between worlds.

    `module` stands in sys.modules under its name, the same in every worker. Raises ToolsetError
    naming what cannot be kept apart.
    """

    def __init__(self, module: ModuleType) -> None:
        found = survey(module)
        self._name = str(module.__file__ or module.__name__)
        self._places: tuple[Place, ...] = tuple(found.places)
        self._shared = [place for place in self._places if isinstance(place, Environment)]
        self._resets = tuple(found.resets)
        self._fixed: list[Any] = found.fixed  # what pickled state refers to by position
        self._positions = {id(value): position for position, value in enumerate(self._fixed)}
        self.stateless = not self._places and not self._resets
        self.notes = tuple(f"kept apart for each world: {place.name}" for place in self._places)
        self._current: bytes | None = None  # the state that is in place; None: not known
        self._given = b""  # the state that `restore` has put in place last
        self._start = b""
        if self._places:
            self.restore(self.capture())  # so that what follows starts as it will in other workers
            self._start = self.capture()
            self._current = None  # whoever has the module may still change it

    def __repr__(self) -> str:
        return f"<Memory of {self._name} [{len(self._places)} places, {len(self._start)} bytes]>"

    def capture(self) -> bytes:
        """The state now, for `restore` here or in another worker; empty: there is none.

        Raises ToolsetError when it holds what cannot be kept apart, or more than 1 MiB.
        """
        for reset in self._resets:
            reset()
        if not self._places:
            return b""
        state = self._pickled([place.content() for place in self._places])
        if len(state) > MAX_STATE:
            raise ToolsetError(
                f"{self._name}: its module state has {len(state)} bytes, "
                f"more than {MAX_STATE} that a world may keep"
            )
        for place in self._shared:
            place.leave()
        if state != self._given:
            return state
        self._current = None if self._shared else self._given
        return self._given

    def restore(self, state: bytes) -> None:
        """Put a world's state in place; empty: the state after loading.

        Every call begins with what this makes, also where the world's own objects are still there:
        those may give what they hold in another order.
        """
        state = state or self._start
        current, self._current = self._current, None  # until `capture` finds it unchanged
        if not self._places or state == current:
            return
        contents = _Unpickler(io.BytesIO(state), self._fixed).load()
        for place, content in zip(self._places, contents, strict=True):
            place.put(content)
        self._given = state

    def _pickled(self, contents: list[Content]) -> bytes:
        try:
            return self._dumped(contents)
        except Exception as exc:
            place, why = self._culprit(contents) or ("its module state", exc)
            raise ToolsetError(
                f"{self._name}: {place} cannot be kept apart between worlds: {_told(why)}"
            ) from exc

    def _dumped(self, contents: Iterable[Content]) -> bytes:
        stream = io.BytesIO()
        _Pickler(stream, self._positions.get).dump(list(contents))
        return stream.getvalue()

    def _culprit(self, contents: list[Content]) -> tuple[str, Exception] | None:
        """The first place whose content cannot be pickled, and why."""
        for place, content in zip(self._places, contents, strict=True):
            try:
                self._dumped([content])
            except Exception as exc:
                return place.name, exc
        return None


class _Pickler(pickle.Pickler):
    """Writes state; what is fixed is referred to by its position."""

    def __init__(self, stream: io.BytesIO, position: Callable[[int], int | None]) -> None:
        super().__init__(stream, protocol=_PROTOCOL)
        self._position = position

    def persistent_id(self, value: Any) -> int | None:
        return self._position(id(value))

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind.__module__ == "_thread" and kind.__name__ in ("lock", "RLock"):
            return (threading.Lock if kind.__name__ == "lock" else kind), ()  # nobody waits for it
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, fixed: list[Any]) -> None:
        super().__init__(stream)
        self._fixed = fixed

    def persistent_load(self, position: Any) -> Any:
        return self._fixed[position]


def _told(exc: Exception) -> str:
    try:
        text = str(exc)
    except Exception:
        text = ""
    return text.encode(errors="replace").decode()[:300] or type(exc).__name__
