"""A world inside a worker: what a call needs and what it leaves behind."""

from envpool.store.overlay import Overlay


class LiveWorld:
    """One world of a hosted scenario. Whoever hosts it reads it, and writes it on each call.

    `memory` and `num_calls` travel with the world from worker to worker (see
    envpool.workers.wire.Snapshot), so that it goes on anywhere as if it had stayed.
    """

    __slots__ = ("memory", "num_calls", "overlay")

    def __init__(self, overlay: Overlay, memory: bytes = b"", num_calls: int = 0) -> None:
        self.overlay = overlay
        self.memory = memory  # module state of its code, pickled; only workers open it
        self.num_calls = num_calls  # made so far: what chance in its code follows from

    def copy(self) -> "LiveWorld":
        """An independent world of the same state."""
        return LiveWorld(self.overlay.copy(), self.memory, self.num_calls)
