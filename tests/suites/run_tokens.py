"""python -m tests.suites.run_tokens RUN: about how many prompt tokens and requests a run had.

Of runs without a model, too: the windows are rebuilt from the log, and 4 bytes count as a token.
The figures of scenarios/suites/measured.py come from it.
"""

import sys
from pathlib import Path

from rehearsal_room.harness.history.token_budget import TokenMeasure
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.interop.exports.conversation import EpisodeConversation


def main(run: str) -> int:
    """Count and print; returns the exit status."""
    tokens = requests = 0
    measure = TokenMeasure()
    with open_reader(Path(run)) as reader:
        worlds = reader.scenarios()
        for trajectory in reader.trajectories():
            world = worlds[trajectory.started.scenario_digest]
            conversation = EpisodeConversation(trajectory, world)
            sizes = [measure.messages((one,)) for one in conversation.messages]
            for reply in conversation.replies:
                requests += 1
                tokens += sum(sum(sizes[first:last]) for first, last in reply.window)
                tokens += measure.tools(reply.tools)
    sys.stdout.write(f"{requests:,} requests, about {tokens:,} prompt tokens\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
