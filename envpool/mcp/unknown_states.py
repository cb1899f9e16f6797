"""The states of worlds that do not reveal them: unknown, which is not the same as broken.

An unknown state has no template, no pages and no digest. It cannot be compared or restored, and it
has no changes; an episode that ends with it is complete.
"""

from collections.abc import Iterable

from rehearsal_room.envpool.core.errors import StateError
from rehearsal_room.envpool.core.types import StoredState, ToolSpec
from rehearsal_room.envpool.store.overlay import Overlay, OverlayVFS
from rehearsal_room.envpool.store.states import States
from rehearsal_room.envpool.store.template import Template
from rehearsal_room.scenarios.format import Scenario

UNKNOWN = StoredState("", {}, 0, "")
_EMPTY = Template((), "", {}, 0)


def is_known(state: StoredState) -> bool:
    """Whether the world revealed this state."""
    return state.template != ""


class UnknownStates(States):
    """The states of such a scenario: a database without tables, and empty digests."""

    def __init__(self, scenario: Scenario, tools: Iterable[ToolSpec]) -> None:
        super().__init__(scenario, _EMPTY, tools, OverlayVFS(0.0))
        self.start_digest = ""

    @property
    def start(self) -> StoredState:
        return UNKNOWN

    def stored(self, overlay: Overlay) -> StoredState:
        return UNKNOWN

    def restored(self, state: StoredState) -> Overlay:
        if is_known(state):
            raise StateError(
                f"the state belongs to template {state.template}, but the state of scenario "
                f"{self.scenario.name!r} is unknown"
            )
        return _EMPTY.overlay()

    def verify_digest(self, overlay: Overlay) -> str:
        return ""
