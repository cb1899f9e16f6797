"""Background tasks that belong to an object or a function, not to the block that uses it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio import AsyncContextManagerMixin
from anyio.abc import TaskGroup


class OwnedTasks(AsyncContextManagerMixin):
    """The tasks of one object, for the duration of its block.

    Leaving the block cancels them. An exception of the block is raised unchanged, not in a group; a
    task that fails cancels the block.
    """

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[TaskGroup]:
        failure: BaseException | None = None
        async with anyio.create_task_group() as group:
            try:
                yield group
            except anyio.get_cancelled_exc_class() as exc:
                failure = exc
                raise
            except BaseException as exc:
                failure = exc
            finally:
                group.cancel_scope.cancel()
        if failure is not None:  # the cancelled group would have swallowed it
            raise failure
