"""What a run says once, however many episodes it concerns."""

from typing import Any

import structlog

_log = structlog.get_logger(__name__)


class Notices:
    """The warnings that a run has said."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, event: str, **values: Any) -> None:
        """Say a warning, unless the run has said it."""
        if event not in self._said:
            self._said.add(event)
            _log.warning(event, **values)
