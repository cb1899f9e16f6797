"""Virtual time: when all tasks wait, the clock jumps to the next deadline.

For code that only anyio drives. The loop cannot detect whether a thread, a socket or a process is
still busy; tests with these use real time.

A test module gets both event loops with

    @pytest.fixture(params=BACKENDS, ids=["asyncio", "trio"])
    def anyio_backend(request): return request.param
"""

import asyncio
import selectors
from typing import Any

from trio.testing import MockClock


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits for a deadline: it moves the loop's clock there."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self.loop.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with its own clock, which starts at 0."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


_trio_clock = MockClock(autojump_threshold=0)


def reset_clock() -> None:
    """Start trio's clock at 0, as each VirtualLoop does: where it had gone on since other tests,
    sums of seconds would be rounded by how many those were."""
    _trio_clock._virtual_base = 0.0  # type: ignore[attr-defined]


BACKENDS: list[tuple[str, dict[str, Any]]] = [
    ("asyncio", {"loop_factory": VirtualLoop}),
    ("trio", {"clock": _trio_clock}),
]
