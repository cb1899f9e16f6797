"""Worlds that do not tell their state: it is unknown, which is not the same as broken.

An unknown state has no template, no pages and no digest. Nothing can be compared with it, restored
from it or said to have changed in it; an episode that ends with it ended as it should.
"""

from collections.abc import Iterable

from envpool.core.errors import StateError
from envpool.core.types import StoredState, ToolSpec
from envpool.store.overlay import Overlay, OverlayVFS
from envpool.store.states import States
from envpool.store.template import Template
from scenarios.format import Scenario

UNKNOWN = StoredState("", {}, 0, "")
_NOTHING = Template((), "", {}, 0)


def is_known(state: StoredState) -> bool:
    """Whether the world told its state."""
    return state.template != ""


class UnknownStates(States):
    """The states of such a scenario: a database without tables, and digests that are empty."""

    def __init__(self, scenario: Scenario, tools: Iterable[ToolSpec]) -> None:
        super().__init__(scenario, _NOTHING, tools, OverlayVFS(0.0))
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
        return _NOTHING.overlay()

    def verify_digest(self, overlay: Overlay) -> str:
        return ""
