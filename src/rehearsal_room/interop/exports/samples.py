"""The samples that training makes of a run, as a Parquet file, and back.

One row is one reply of the agent, in the order in which training takes it:

    batch, group, episode, member, turn   where it belongs; `batch` counts from 0
    scenario, task, ending, label
    prompt_ids, token_ids, logprobs       what the agent was shown, what it sampled, and the
                                          sampler's log-probabilities: P, T and T numbers
    version                               of the weights that sampled it
    reward, episode_reward                of the step and of the episode
    advantage, weight                     of each of its tokens: the batch's loss is the sum of
                                          weight * loss over all tokens
    is_summary                            the reply is a summary that the window asked for

Groups that training would drop are left out, since a reward without others to compare is worth
nothing. `read_samples` gives the same groups, advantages and weights.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # ships no type hints
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # ships no type hints

from rehearsal_room.learner.advantages.registry import advantages_of
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.samples import Branching, Group, Rollout, Sample
from rehearsal_room.learner.data.group_feed import groups_of_logs
from rehearsal_room.learner.data.grouping import Grouping, versions_of
from rehearsal_room.learner.data.log_source import LogSource
from rehearsal_room.learner.data.sample_lengths import TokenLimits
from rehearsal_room.learner.losses.aggregation import weights_of
from rehearsal_room.learner.model.pretrained import open_config

SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("group", pa.string()),
        ("episode", pa.string()),
        ("member", pa.int64()),
        ("branch_of", pa.string()),  # the episode from which this one branches; null: from none
        ("branch_turn", pa.int64()),
        ("turn", pa.int64()),
        ("is_summary", pa.bool_()),
        ("scenario", pa.string()),
        ("task", pa.string()),
        ("ending", pa.string()),
        ("label", pa.string()),
        ("prompt_ids", pa.list_(pa.int32())),
        ("token_ids", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float32())),
        ("version", pa.string()),
        ("reward", pa.float64()),
        ("episode_reward", pa.float64()),
        ("advantage", pa.float64()),
        ("weight", pa.float64()),
    ]
)
_BRANCHING = {"branch_of", "branch_turn"}  # not in files that were written before groups branched
PerSample = list[list[list[float]]]  # by group, rollout and sample


class SampleBatch(msgspec.Struct, frozen=True, eq=False):
    """One batch: what `learner.packing.prefix_groups.batch_of` takes."""

    groups: tuple[Group, ...]
    advantages: PerSample
    weights: PerSample  # of each token of a sample


def batches_of_run(folder: Path, settings: TrainSettings) -> Iterator[SampleBatch]:
    """The batches that training with these settings makes of a run's log; the model's limits count
    where its folder is here. Raises LogError, SampleError, ModelError, and LearnerError where no
    group can be used."""
    data, loss, model = settings.data, settings.loss, Path(settings.model)
    is_here = bool(settings.model) and model.is_dir()
    limits = TokenLimits.of_config(open_config(model)) if is_here else None
    grouping = Grouping(data, loss=loss, limits=limits)
    source = LogSource(groups_of_logs([folder], grouping), grouping, size=data.groups)
    while (batch := source.take_now()) is not None:
        weights = weights_of(
            batch.groups, loss.aggregate, length=loss.constant_length, also=batch.equal_size
        )
        advantages = [advantages_of(group, loss) for group in batch.groups]
        yield SampleBatch(batch.groups, advantages, weights)


def write(file: BinaryIO, batches: Iterator[SampleBatch]) -> int:
    """Write batches to an open file; returns the number of episodes."""
    episodes = 0
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for number, batch in enumerate(batches):
            writer.write_table(pa.Table.from_pylist(list(_rows(number, batch)), schema=SCHEMA))
            episodes += sum(len(group.rollouts) for group in batch.groups)
    return episodes


def _rows(number: int, batch: SampleBatch) -> Iterator[dict[str, Any]]:
    for group, *values in zip(batch.groups, batch.advantages, batch.weights, strict=True):
        for rollout, *each in zip(group.rollouts, *values, strict=True):
            for sample, advantage, weight in zip(rollout.samples, *each, strict=True):
                yield {
                    "batch": number,
                    "group": group.group,
                    "episode": rollout.episode,
                    "member": rollout.member,
                    "branch_of": rollout.branching and rollout.branching.episode,
                    "branch_turn": rollout.branching and rollout.branching.turn,
                    "turn": sample.turn,
                    "is_summary": sample.is_summary,
                    "scenario": group.scenario,
                    "task": group.task,
                    "ending": rollout.ending,
                    "label": rollout.label,
                    "prompt_ids": sample.prompt,
                    "token_ids": sample.tokens,
                    "logprobs": sample.logprobs,
                    "version": sample.weights,
                    "reward": sample.reward,
                    "episode_reward": rollout.reward,
                    "advantage": advantage,
                    "weight": weight,
                }


def read_samples(path: Path) -> Iterator[SampleBatch]:
    """The batches in a file that `write` wrote. Raises OSError, and ValueError for another file."""
    rows = _read_rows(path)
    for _, batch in groupby(rows, key=lambda row: row["batch"]):
        groups: list[Group] = []
        advantages: PerSample = []
        weights: PerSample = []
        for _, of_group in groupby(batch, key=lambda row: row["group"]):
            episodes = [list(one) for _, one in groupby(of_group, key=lambda row: row["episode"])]
            groups.append(_group(episodes))
            advantages.append([[row["advantage"] for row in one] for one in episodes])
            weights.append([[row["weight"] for row in one] for one in episodes])
        yield SampleBatch(tuple(groups), advantages, weights)


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        missing = set(SCHEMA.names) - set(file.schema_arrow.names)
        if missing and missing != _BRANCHING:
            names = ", ".join(sorted(missing))
            raise ValueError(f"{path}: the file has no samples: it lacks the columns {names}")
        columns = [name for name in SCHEMA.names if name in file.schema_arrow.names]
        for part in file.iter_batches(columns=columns):
            yield from part.to_pylist()


def _group(episodes: Sequence[Sequence[dict[str, Any]]]) -> Group:
    first = episodes[0][0]
    rollouts = tuple(_rollout(rows) for rows in episodes)
    versions = versions_of([sample for rollout in rollouts for sample in rollout.samples])
    return Group(first["group"], first["scenario"], first["task"], rollouts, versions)


def _rollout(rows: Sequence[dict[str, Any]]) -> Rollout:
    first = rows[0]
    samples = tuple(
        Sample(
            np.array(row["prompt_ids"], np.int32),
            np.array(row["token_ids"], np.int32),
            np.array(row["logprobs"], np.float32),
            row["reward"],
            row["turn"],
            row["version"],
            row["is_summary"],
        )
        for row in rows
    )
    return Rollout(
        first["episode"],
        first["member"],
        first["episode_reward"],
        samples,
        first["ending"],
        first["label"],
        branching=Branching(of, first["branch_turn"]) if (of := first.get("branch_of")) else None,
    )
