"""Prompts and sampled tokens of two runs of the same episodes, compared as far as they can be."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.token_bytes import decode_ids
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader

Ids = tuple[int, ...]


class IdComparison(msgspec.Struct, frozen=True):
    """Counts over all pairs of replies whose prompts must be equal: those before which both agents
    sampled the same."""

    prompts: int
    equal_prompts: int
    equal_replies: int
    tokens: int  # sampled by the first run, in these replies
    equal_tokens: int  # before the first one that differs


def compare_ids(one: Path, other: Path) -> IdComparison:
    """Compare two runs with the same history window and dialect. `one` has all tasks of `other`.
    Each pair of episodes is compared up to the first reply of which a token differs."""
    counts: Counter[str] = Counter()
    firsts = {_task_of(found): found for found in trajectories_of(one)}
    for second in trajectories_of(other):
        first = firsts[_task_of(second)]
        for (prompt, reply), (other_prompt, other_reply) in zip(
            ids_of(first), ids_of(second), strict=False
        ):
            same = _num_same(reply, other_reply)
            counts.update(
                prompts=1,
                equal_prompts=prompt == other_prompt,
                equal_replies=reply == other_reply,
                tokens=len(reply),
                equal_tokens=same,
            )
            if reply != other_reply:
                break
    return IdComparison(**{name: counts[name] for name in IdComparison.__struct_fields__})


def trajectories_of(run: Path) -> list[Trajectory]:
    """The latest attempts at a run's episodes."""
    with open_reader(run) as reader:
        return list(reader.trajectories())


def ids_of(trajectory: Trajectory) -> list[tuple[Ids, Ids]]:
    """The ids of prompt and reply of each step, as logged."""
    replies = [event.reply for event in trajectory.replies()]
    return [
        (tuple(decode_ids(prompt)), tuple(decode_ids(reply.token_ids)))
        for prompt, reply in zip(trajectory.prompts(), replies, strict=True)
    ]


def _task_of(trajectory: Trajectory) -> tuple[str, str, int]:
    started = trajectory.started
    return started.scenario, started.task, started.member


def _num_same(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
