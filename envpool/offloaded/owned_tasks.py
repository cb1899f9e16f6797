"""Tasks that belong to an object or a function, and not to what it is used for."""

from types import TracebackType

import anyio
from anyio.abc import TaskGroup


class OwnedTasks:
    """The tasks of one object, for as long as its block. What the block raises comes out as it is,
    not in a group; a task that fails breaks off the block."""

    def __init__(self) -> None:
        self._group = anyio.create_task_group()

    async def __aenter__(self) -> TaskGroup:
        return await self._group.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # What the group answers is dropped: having been cancelled here, it would swallow what the
        # block raises.
        self._group.cancel_scope.cancel()
        if isinstance(exc, anyio.get_cancelled_exc_class()):
            await self._group.__aexit__(kind, exc, traceback)
        else:
            await self._group.__aexit__(None, None, None)
