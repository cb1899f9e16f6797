"""Running many episodes with bounded concurrency.

N workers take plans from one iterator, so at most N episodes run and the next begins when one ends.
An episode that pauses (see harness.rollout.slots) gives its slot to one more worker. Workers start
in batches, one turn of the event loop apart: ten thousand at once would block the loop for a
second. Where an `admit` function is given, a worker waits with its plan until the plan is admitted,
goes to the next when this one is left out, and ends when it is refused; paused episodes may have
its slot meanwhile. An exception in one episode is a bug or a broken world; it cancels the other
episodes, which record their endings, and is raised unchanged.
"""

from collections.abc import Awaitable, Callable, Iterable
from itertools import islice

import anyio
import anyio.lowlevel

from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.slots import Slots

# Waits until the episode may begin; None: it shall not; False: nor shall any later one.
Admit = Callable[[EpisodePlan], Awaitable[bool | None]]
_BATCH = 256  # workers started in one turn of the event loop


async def run_all(
    plans: Iterable[EpisodePlan],
    work: Callable[[EpisodePlan], Awaitable[object]],
    *,
    concurrency: int,
    admit: Admit | None = None,
    slots: Slots | None = None,
) -> None:
    """Do the work of every plan (`admit` None: none waits). `slots` are those from which the work
    pauses (None: it never does). Raises the first exception."""
    queue = iter(plans)
    failure: list[BaseException] = []
    refused: list[EpisodePlan] = []
    slots = slots or Slots()
    async with anyio.create_task_group() as tasks:

        async def worker(first: EpisodePlan) -> None:
            plan: EpisodePlan | None = first
            try:
                while plan is not None:
                    is_admitted = True if admit is None else await admitted(plan)
                    if is_admitted is False:
                        break
                    if is_admitted:
                        await work(plan)
                    if slots.hand_off():
                        return
                    plan = next(queue, None)
                slots.release()
            except Exception as exc:
                failure.append(exc)
                tasks.cancel_scope.cancel()

        async def admitted(plan: EpisodePlan) -> bool | None:
            assert admit is not None
            slots.lend()
            is_admitted = await admit(plan)
            if is_admitted is False:
                refused.append(plan)
            await slots.acquire()
            return is_admitted

        def begin_another() -> bool:
            plan = None if refused else next(queue, None)
            if plan is not None:
                tasks.start_soon(worker, plan)
            return plan is not None

        slots.open(concurrency, begin_another)
        for number, plan in enumerate(islice(queue, concurrency), 1):
            slots.take()
            tasks.start_soon(worker, plan)
            if number % _BATCH == 0:
                await anyio.lowlevel.checkpoint()
    if failure:
        raise failure[0]
