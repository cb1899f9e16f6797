"""Running many episodes with bounded concurrency.

N workers take plans from one iterator, so at most N episodes are live and the next begins when one
ends. Workers start in small lots, a loop turn apart: ten thousand at once would hold the loop for a
second. Where the caller admits episodes, a worker waits with its plan until it may begin, and goes
when no more episodes are wanted. An exception in one episode is a bug or a broken world; it cancels
the others, which record their endings, and is raised as it is.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator

import anyio
import anyio.lowlevel

from harness.rollout.plan import EpisodePlan

# Waits until the episode may begin; False: no more episodes are wanted, this one neither.
Admit = Callable[[EpisodePlan], Awaitable[bool]]
_LOT = 256  # workers started between two turns of the loop


async def run_all(
    plans: Iterable[EpisodePlan],
    work: Callable[[EpisodePlan], Awaitable[object]],
    *,
    concurrency: int,
    admit: Admit | None = None,
) -> None:
    """Do the work of every plan (`admit` None: none waits). Raises the first exception of any."""
    queue = iter(plans)
    failure: list[BaseException] = []
    async with anyio.create_task_group() as tasks:

        async def worker(first: EpisodePlan) -> None:
            plan: EpisodePlan | None = first
            try:
                while plan is not None and (admit is None or await admit(plan)):
                    await work(plan)
                    plan = next(queue, None)
            except Exception as exc:
                failure.append(exc)
                tasks.cancel_scope.cancel()

        for number, plan in enumerate(_first(queue, concurrency), 1):
            tasks.start_soon(worker, plan)
            if number % _LOT == 0:
                await anyio.lowlevel.checkpoint()
    if failure:
        raise failure[0]


def _first(queue: Iterator[EpisodePlan], count: int) -> Iterator[EpisodePlan]:
    for _ in range(count):
        plan = next(queue, None)
        if plan is None:
            return
        yield plan
