"""The feed of a soak: batches of judged episodes from a run that is still played and judged.

    python -m tests.support.soak_feed RUN OUTPUT EPISODES

Each batch is a line of OUTPUT: the episodes, the attempt at each that counts, and its label. It may
be killed and started again: it goes on after the lines that OUTPUT has.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.learner.data.followed_logs import FollowedLog

SIZE = 64  # episodes of a batch
_LOOK_S = 0.1  # between two looks at a log in which nothing is new


def batches(run: Path, num_episodes: int) -> Iterator[str]:
    """Yield the lines of all batches of a run of so many episodes, each as soon as it is whole."""
    with open_reader(run) as reader:
        log = FollowedLog(run, reader)
        for first in range(0, num_episodes, SIZE):
            words = []
            for _ in range(min(SIZE, num_episodes - first)):
                while (found := log.next_episode()) is None:
                    if not log.look():
                        time.sleep(_LOOK_S)
                episode = reader.trajectory(found[0], attempt=found[1], first_verdict=True)
                (judged,) = episode.judged
                words.append(f"{found[0]}/{found[1]}={judged.label}")
            yield " ".join(words)


def main(run: Path, output: Path, num_episodes: int) -> None:
    """Append the batches that the output lacks."""
    output.touch()
    text = output.read_text(encoding="ascii")
    whole = text[: text.rfind("\n") + 1]  # a kill may have cut the last line off
    output.write_text(whole, encoding="ascii")
    num_known = whole.count("\n")
    with output.open("a", encoding="ascii") as lines:
        for number, line in enumerate(batches(run, num_episodes)):
            if number >= num_known:
                lines.write(f"{line}\n")
                lines.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
