"""The token data of one episode's replies, from the log's bytes to arrays.

All replies of an episode are processed together: joined, checked, and cut into views. No work is
done per token, and the common beginning of all prompts is stored once.
"""

from collections.abc import Callable, Iterator, Sequence
from math import isfinite

import msgspec
import numpy as np

from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.core.token_bytes import ID_BYTES
from rehearsal_room.learner.core.errors import SampleError
from rehearsal_room.learner.core.samples import Floats, Ids

# Makes an error from the number of a reply, the field, and the fault.
MakeSampleError = Callable[[int, str, str], SampleError]

_ANY_ID = 2**31  # every model's ids are smaller
_ROUNDING = 1e-3  # a log-probability may exceed 0 by this much when a server computes in 16 bits
_NO_TOKENS = (
    "the reply has no token ids; only episodes of policies that log their tokens can be trained"
    " on (local, vllm, or any policy with `tokens` set)"
)


_NOT_WHOLE = "{} bytes are not a whole number of ids"


class ReplyArrays(msgspec.Struct, frozen=True, eq=False):
    """R replies, in order."""

    head: Ids  # [H], the common beginning of all prompts
    tails: list[Ids]  # R x [P - H], each prompt's tokens after the head; at least one
    tokens: list[Ids]  # R x [T], the sampled tokens
    logprobs: list[Floats]  # R x [T]


def arrays_of(
    replies: Sequence[Reply], vocab: int | None, make_error: MakeSampleError
) -> ReplyArrays:
    """The arrays of one reply or more. Ids of `vocab` (None: unknown) and above are refused.

    Raises the errors that `make_error` makes.

    Example: prompt_ids 1 2 3, then prompt_shared 2 and prompt_ids 7 ->
        head 1 2, tails [3] and [7]
    """
    _check(replies, make_error)
    sampled = [reply.token_ids for reply in replies]
    sizes = list(map(len, sampled))
    indices = range(len(replies))
    tokens = _ids(sampled, sizes, indices, "token_ids", vocab, make_error)
    logprobs = _logprobs([reply.logprobs for reply in replies], sizes, make_error)
    head = _head_size(replies)
    pieces, sizes = _prompts(replies, head)
    prompts = _ids(pieces, [head, *sizes], (0, *indices), "prompt_ids", vocab, make_error)
    return ReplyArrays(prompts[0], prompts[1:], tokens, logprobs)


def _check(replies: Sequence[Reply], make_error: MakeSampleError) -> None:
    """Check the sizes of all fields."""
    first = len(replies[0].prompt_ids)
    for index, reply in enumerate(replies):
        size, shared = len(reply.token_ids), reply.prompt_shared * ID_BYTES
        if not size:
            raise make_error(index, "token_ids", _NO_TOKENS)
        if len(reply.logprobs) != size:
            found = f"{len(reply.logprobs) // ID_BYTES} log-probabilities"
            raise make_error(index, "logprobs", f"{size // ID_BYTES} tokens have {found}")
        if size % ID_BYTES:
            raise make_error(index, "token_ids", _NOT_WHOLE.format(size))
        if not 0 <= shared <= (first if index else 0):
            raise make_error(
                index,
                "prompt_shared",
                f"{reply.prompt_shared} tokens cannot be shared with the episode's first prompt,"
                f" which has {first // ID_BYTES if index else 0} tokens before this reply",
            )
        size = len(reply.prompt_ids)
        if not shared + size:
            raise make_error(index, "prompt_ids", "the reply has no prompt")
        if size % ID_BYTES:
            raise make_error(index, "prompt_ids", _NOT_WHOLE.format(size))


def _head_size(replies: Sequence[Reply]) -> int:
    """The number of bytes that all prompts are known to start with; each prompt has at least one
    token after them."""
    shared = [reply.prompt_shared * ID_BYTES for reply in replies[1:]]
    longest = [
        size + len(reply.prompt_ids) for size, reply in zip([0, *shared], replies, strict=True)
    ]
    return min(min(shared), min(longest) - ID_BYTES) if shared else 0


def _prompts(replies: Sequence[Reply], head: int) -> tuple[list[memoryview | bytes], list[int]]:
    """The pieces of the head and of each prompt's tail, and the sizes of the tails in bytes."""
    first = memoryview(replies[0].prompt_ids)
    pieces: list[memoryview | bytes] = [first]  # head and tail of the first prompt
    sizes = [len(first) - head]
    for reply in replies[1:]:
        shared = reply.prompt_shared * ID_BYTES
        if shared > head:
            pieces.append(first[head:shared])
        pieces.append(reply.prompt_ids)
        sizes.append(shared - head + len(reply.prompt_ids))
    return pieces, sizes


def _ids(
    pieces: Sequence[memoryview | bytes],
    sizes: Sequence[int],
    indices: Sequence[int],
    field: str,
    vocab: int | None,
    make_error: MakeSampleError,
) -> list[Ids]:
    """The ids in the pieces, cut into arrays of `sizes` bytes, which belong to the replies with
    these indices."""
    joined = np.frombuffer(b"".join(pieces), "<i4").astype(np.int32, copy=False)
    arrays = [joined[begin:end] for begin, end in _bounds(sizes)]
    limit = vocab or _ANY_ID
    if int(joined.view(np.uint32).max()) >= limit:  # negative ids are large ones here
        for index, ids in zip(indices, arrays, strict=True):
            for one in ids.tolist():
                if not 0 <= one < limit:
                    fault = f"{one} is not a token of the model, which has {limit:,} tokens"
                    raise make_error(index, field, fault)
    return arrays


def _logprobs(
    pieces: Sequence[bytes], sizes: Sequence[int], make_error: MakeSampleError
) -> list[Floats]:
    joined = np.frombuffer(b"".join(pieces), "<f4").astype(np.float32, copy=False)
    arrays = [joined[begin:end] for begin, end in _bounds(sizes)]
    # numpy's min and max return NaN if there is one, and NaN compares as false with everything.
    if not (joined.max() <= _ROUNDING and isfinite(joined.min())):
        for index, values in enumerate(arrays):
            for number, value in enumerate(values.tolist()):
                if not (isfinite(value) and value <= _ROUNDING):
                    fault = f"token {number} has {value:g}, which is not a log-probability"
                    raise make_error(index, "logprobs", fault)
    return arrays


def _bounds(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The start and end of consecutive arrays of `sizes` bytes, in numbers of ids."""
    begin = 0
    for size in sizes:
        end = begin + size // ID_BYTES
        yield begin, end
        begin = end
