"""What a run says once, however many episodes it concerns."""

from typing import Any

import structlog

_log = structlog.get_logger(__name__)


class Notices:
    """The warnings that a run has said."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, event: str, *, about: str = "", **values: Any) -> None:
        """Say a warning, unless the run has said it about the same."""
        key = f"{event} {about}"
        if key not in self._said:
            self._said.add(key)
            _log.warning(event, **values)
