"""A batch as the files from which prime-rl's trainer reads it.

    FOLDER/rollouts/step_1/rank_0.bin    MessagePack, a list of MicroBatch; a file for each rank

The fields are those of prime-rl at `COMMIT` (src/prime_rl/transports/rollouts/types.py), declared
here in their order, since a struct is an array in the file. Its trainer needs `rollout_transport`
"filesystem".

A sequence is the prompt of a reply and the reply, and the later replies of the episode whose
prompts continue it, token for token. Several sequences stand side by side in a micro-batch. Each
sampled token has `loss_mask` true in exactly one of them.

prime-rl divides a component of its loss by the number of tokens whose weight in it is not 0. So a
token's weight here is its weight in our loss (learner.losses.aggregation) times that number, and
the sum is the same.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from rehearsal_room.learner.core.errors import TrainingError
from rehearsal_room.learner.core.samples import Floats
from rehearsal_room.learner.packing.batch import Batch, Suffix
from rehearsal_room.learner.packing.rows import row_of

COMMIT = "559b44772e471d1538537b8805cc77f3824a5e64"  # of 22 August 2026, version 0.8.0
_EQUAL = 1e-4  # weights that differ less from 1 are 1; they are computed in float32


class MicroBatch(msgspec.Struct, array_like=True, omit_defaults=True):
    """What one rank computes at once: sequences side by side, T tokens in total."""

    input_ids: list[int]  # [T]
    loss_mask: list[bool]  # [T], whether the token was sampled
    advantages: list[float]  # [T]
    inference_logprobs: list[float]  # [T], from the sampler; 0 for what was not sampled
    position_ids: list[int]  # [T], from 0 in each sequence
    sequence_lengths: list[int]  # by which the loss takes it apart
    temperatures: list[float]  # [T], of the sampler
    env_names: list[str]  # [T]
    seq_lens: list[int]  # by which attention takes it apart
    ref_logprobs: None = None
    routed_experts: None = None
    mm_kwargs: None = None
    mm_token_type_ids: None = None
    rl_weights: list[float] | None = None  # [T], of the policy loss; None: 1 for sampled tokens
    ce_weights: list[float] | None = None  # [T], of the likelihood; None: 0
    ref_kl_weights: None = None


class _Stream(msgspec.Struct, frozen=True):
    """By what a token's number in the batch is made from its suffix."""

    clones: bool  # the loss is the likelihood, not that of a policy
    scale: float  # the number by which prime-rl divides

    def values(self, suffix: Suffix) -> Floats:
        """The weights of the trained tokens, `[N]`."""
        return _shares(suffix, clones=self.clones) * np.float32(self.scale)


def grid_of(
    batch: Batch, names: Sequence[str], *, clones: bool, seq_len: int, ranks: int
) -> list[list[MicroBatch]]:
    """The micro-batches of each rank, equally many; what is missing is filled with tokens that are
    not trained. `names` are the worlds of the batch's groups. Raises TrainingError for a sequence
    of more than `seq_len` tokens.
    """
    rows = [
        (row_of(group.prefix, suffix), names[group.group])
        for group in batch.prefix_groups
        for suffix in group.suffixes
    ]
    shares = np.concatenate([_shares(row, clones=clones) for row, _ in rows])
    stream = _Stream(clones, float(np.count_nonzero(shares)))
    is_plain = not clones and bool(np.all(np.abs(shares * stream.scale - 1) < _EQUAL))
    rows.sort(key=lambda row: -len(row[0].tokens))
    if (longest := len(rows[0][0].tokens)) > seq_len:
        raise TrainingError(
            f"a sequence has {longest} tokens, and prime-rl computes {seq_len} at once: raise"
            " model.seq_len in its configuration"
        )
    packed = [_micro_batch(one, None if is_plain else stream) for one in _bins(rows, seq_len)]
    idle = _without_loss(packed[-1])
    packed += [idle] * (-len(packed) % ranks)
    return [packed[rank::ranks] for rank in range(ranks)]


def write(folder: Path, step: int, grid: Sequence[Sequence[MicroBatch]]) -> None:
    """Write the batch of a step, from 1, into prime-rl's folder; a rank's file appears whole.

    Where the same batch is there already, nothing changes. Raises TrainingError, also where there
    is another batch, or the weights after a batch that was not written.
    """
    target = folder / "rollouts" / f"step_{step}"
    files = [target / f"rank_{rank}.bin" for rank in range(len(grid))]
    contents = [msgspec.msgpack.encode(one) for one in grid]
    if not files[0].exists() and (folder / "broadcasts" / target.name / "STABLE").exists():
        raise TrainingError(
            f"{folder}: the weights after {target.name} are there, and its batch is not: the folder"
            " belongs to another run; start both in new folders"
        )
    try:
        for file, content in zip(files, contents, strict=True):
            if file.exists() and file.read_bytes() != content:
                raise TrainingError(
                    f"{file}: there is another batch already: the folder belongs to another run, or"
                    " prime-rl is ahead of this one; start both in new folders"
                )
        target.mkdir(parents=True, exist_ok=True)
        for file, content in zip(files, contents, strict=True):
            file.with_suffix(".bin.tmp").write_bytes(content)
        for file in files:
            file.with_suffix(".bin.tmp").rename(file)
    except OSError as exc:
        raise TrainingError(f"{target}: cannot be written: {exc.strerror or exc}") from exc


_Row = tuple[Suffix, str]  # a sequence, and the world that it is from


def _shares(row: Suffix, *, clones: bool) -> Floats:
    """The shares of the loss of a sequence's trained tokens, `[N]`; as in `likelihood`, a clone's
    include its advantage, if that is more than 0."""
    return row.weights * row.advantages.clip(min=0) if clones else row.weights


def _bins(rows: Sequence[_Row], size: int) -> Iterator[list[_Row]]:
    """Rows, the longest first, in the first bin that has room for them."""
    bins: list[list[_Row]] = []
    rooms: list[int] = []
    for row in rows:
        length = len(row[0].tokens)
        found = next((number for number, room in enumerate(rooms) if room >= length), len(bins))
        if found == len(bins):
            bins.append([])
            rooms.append(size)
        bins[found].append(row)
        rooms[found] -= length
    yield from bins


def _micro_batch(rows: Sequence[_Row], stream: _Stream | None) -> MicroBatch:
    lengths = [len(row.tokens) for row, _ in rows]

    def spread(values: Sequence[Floats]) -> list[float]:
        """Numbers of trained tokens, at the tokens' places; 0 elsewhere."""
        arrays = [np.zeros(length, np.float32) for length in lengths]
        for array, (row, _), found in zip(arrays, rows, values, strict=True):
            array[row.trained] = found
        numbers: list[float] = np.concatenate(arrays).tolist()
        return numbers

    sampled = spread([np.ones(len(row.trained), np.float32) for row, _ in rows])
    weights = None if stream is None else spread([stream.values(row) for row, _ in rows])
    clones = stream is not None and stream.clones
    return MicroBatch(
        input_ids=np.concatenate([row.tokens for row, _ in rows]).tolist(),
        loss_mask=[value == 1.0 for value in sampled],
        advantages=spread([row.advantages for row, _ in rows]),
        inference_logprobs=spread([row.sampler for row, _ in rows]),
        position_ids=[position for length in lengths for position in range(length)],
        sequence_lengths=lengths,
        temperatures=[1.0] * sum(lengths),
        env_names=[
            name for (_, name), length in zip(rows, lengths, strict=True) for _ in range(length)
        ],
        seq_lens=lengths,
        rl_weights=[0.0] * sum(lengths) if clones else weights,
        ce_weights=weights if clones else None,
    )


def _without_loss(one: MicroBatch) -> MicroBatch:
    """The same tokens, none of them trained."""
    return msgspec.structs.replace(
        one, loss_mask=[False] * len(one.input_ids), rl_weights=None, ce_weights=None
    )
