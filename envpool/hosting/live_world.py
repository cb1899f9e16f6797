"""A world inside a worker: what a call needs, and what it changes."""

from rehearsal_room.envpool.store.overlay import Overlay


class LiveWorld:
    """One world of a hosted scenario. Its host reads it and updates it with each call.

    `module_state` and `num_calls` travel with the world from worker to worker (see
    envpool.core.remote_states.Snapshot), so that it continues in any worker as it would have here.
    """

    __slots__ = ("module_state", "num_calls", "overlay")

    def __init__(self, overlay: Overlay, module_state: bytes = b"", num_calls: int = 0) -> None:
        self.overlay = overlay
        self.module_state = module_state  # globals of its Python modules, pickled
        self.num_calls = num_calls  # made so far; they determine the random numbers of its code

    def copy(self) -> "LiveWorld":
        """An independent world with the same state."""
        return LiveWorld(self.overlay.copy(), self.module_state, self.num_calls)
