"""`rehearse train` that kills itself at a given point, for test_train_kill.

python -m tests.support.train_victim POINT ARGUMENTS...
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from torch.distributed.checkpoint import state_dict_saver

from rehearsal_room.cli import main as cli
from rehearsal_room.harness.core.events import EpisodeEnded, Judged
from rehearsal_room.learner.data.batch_queue import BatchQueue
from rehearsal_room.learner.data.rollout_feed import RolloutFeed
from rehearsal_room.learner.loop import evaluation
from rehearsal_room.learner.loop.metrics import TrainingMetrics
from rehearsal_room.learner.trainer.weight_publisher import WeightPublisher


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_after(owner: Any, name: str, is_point: Callable[..., bool]) -> None:
    """Make a function kill the process after a call for whose result and arguments `is_point` is
    true."""
    original = getattr(owner, name)

    async def coroutine(*arguments: Any, **options: Any) -> Any:
        result = await original(*arguments, **options)
        if is_point(result, *arguments):
            kill_self()
        return result

    def function(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        if is_point(result, *arguments):
            kill_self()
        return result

    is_async = original.__code__.co_flags & 0x80
    setattr(owner, name, coroutine if is_async else function)


def processed(kind: type[Any], episode: str) -> Callable[..., bool]:
    """Whether a feed has processed an event of this kind of an episode."""

    def is_point(result: Any, feed: RolloutFeed, records: Any) -> bool:
        return any(one.episode == episode and isinstance(one.event, kind) for one in records)

    return is_point


POINTS: dict[str, Callable[[], None]] = {
    # An episode has ended and is in the log; its verdict, or its group, is not.
    "ended": lambda: kill_after(RolloutFeed, "_process", processed(EpisodeEnded, "e000001")),
    "judged": lambda: kill_after(RolloutFeed, "_process", processed(Judged, "e000005")),
    # A batch has its groups and is not trained yet.
    "taken": lambda: kill_after(BatchQueue, "take", lambda batch, *arguments: batch.end == 6),
    # The policies have weights that no checkpoint has.
    "published": lambda: kill_after(
        WeightPublisher, "publish", lambda path, publisher, version, step: version == 3
    ),
    # An evaluation has run, and its metrics are not stored.
    "evaluated": lambda: kill_after(
        evaluation, "_summarize", lambda values, folder: folder.name == "b000004"
    ),
    # The metrics are reported, and the checkpoint is written except for its final name.
    "reported": lambda: kill_after(
        TrainingMetrics, "write", lambda nothing, metrics, step, values: step == 6
    ),
    "saved": lambda: kill_after(state_dict_saver, "save", lambda *arguments: True),
}


def main() -> None:
    POINTS[sys.argv[1]]()
    sys.argv[1:] = sys.argv[2:]
    cli.main()


if __name__ == "__main__":
    main()
