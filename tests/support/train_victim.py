"""`rehearse train` that kills itself: python -m tests.support.train_victim POINT ARGUMENTS...

Run by test_train_kill.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from torch.distributed.checkpoint import state_dict_saver

from harness import cli
from harness.core.events import EpisodeEnded, Judged
from learner.data.batch_queue import BatchQueue
from learner.data.rollout_feed import RolloutFeed
from learner.loop import evaluation
from learner.loop.metrics import Metrics
from learner.trainer.weight_publisher import Publisher


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(owner: Any, name: str, is_there: Callable[..., bool]) -> None:
    """Have a function kill the process when it has done its work, where `is_there` says so of its
    result and arguments."""
    real = getattr(owner, name)

    async def coroutine(*arguments: Any, **options: Any) -> Any:
        result = await real(*arguments, **options)
        if is_there(result, *arguments):
            killed()
        return result

    def function(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        if is_there(result, *arguments):
            killed()
        return result

    is_async = real.__code__.co_flags & 0x80
    setattr(owner, name, coroutine if is_async else function)


def heard(kind: type[Any], episode: str) -> Callable[..., bool]:
    """Whether a feed has heard this of an episode."""

    def is_there(result: Any, feed: RolloutFeed, records: Any) -> bool:
        return any(one.episode == episode and isinstance(one.event, kind) for one in records)

    return is_there


POINTS: dict[str, Callable[[], None]] = {
    # An episode has ended and is in the log; its verdict, or its group, is not.
    "ended": lambda: after(RolloutFeed, "_hear", heard(EpisodeEnded, "e000001")),
    "judged": lambda: after(RolloutFeed, "_hear", heard(Judged, "e000005")),
    # A batch has its groups and is not trained yet.
    "taken": lambda: after(BatchQueue, "take", lambda taken, *arguments: taken.end == 6),
    # The policies have weights that no checkpoint has.
    "published": lambda: after(Publisher, "publish", lambda path, me, version, step: version == 3),
    # An evaluation was played, and nothing has its figures.
    "evaluated": lambda: after(evaluation, "_reported", lambda values, f: f.name == "b000004"),
    # All is told, and the checkpoint is written but for its name.
    "told": lambda: after(Metrics, "write", lambda nothing, me, step, values: step == 6),
    "saved": lambda: after(state_dict_saver, "save", lambda *arguments: True),
}


if __name__ == "__main__":
    POINTS[sys.argv[1]]()
    sys.argv[1:] = sys.argv[2:]
    cli.main()
