"""What the replies of one episode bear, from the log's bytes to arrays.

An episode's replies are looked at together: joined, checked and cut into views. Nothing is done for
each token, and what all prompts begin with is held once.
"""

from collections.abc import Callable, Iterator, Sequence
from math import isfinite

import msgspec
import numpy as np

from harness.core.messages import Reply
from harness.core.token_bytes import ID_BYTES
from learner.core.errors import SampleError
from learner.core.samples import Floats, Ids

# Makes an error of the number of a reply, the field and what is wrong with it.
Complaint = Callable[[int, str, str], SampleError]

_ANY_ID = 2**31  # no id is larger than this, whatever the model
_ROUNDING = 1e-3  # a log-probability may be so much above 0 where servers count in 16 bits
_NO_TOKENS = (
    "the reply has no token ids; only policies that tell their tokens can be trained on (local,"
    " vllm, or any with `tokens` set)"
)


class ReplyArrays(msgspec.Struct, frozen=True, eq=False):
    """R replies, in order."""

    head: Ids  # what every prompt begins with
    shown: list[Ids]  # what each prompt has behind the head, at least one token
    tokens: list[Ids]  # what was sampled, T of each reply
    logprobs: list[Floats]  # [T] of each reply


def arrays_of(replies: Sequence[Reply], vocab: int | None, complaint: Complaint) -> ReplyArrays:
    """The arrays of at least one reply. Ids of `vocab` (None: not known) and above are refused.

    Raises what `complaint` makes.

    Example: prompt_ids 1 2 3, then prompt_shared 2 and prompt_ids 7 ->
        head 1 2, shown [3] and [7]
    """
    _check(replies, complaint)
    sampled = [reply.token_ids for reply in replies]
    sizes = list(map(len, sampled))
    places = range(len(replies))
    tokens = _ids(sampled, sizes, places, "token_ids", vocab, complaint)
    logprobs = _logprobs([reply.logprobs for reply in replies], sizes, complaint)
    head = _head_size(replies)
    pieces, sizes = _prompts(replies, head)
    prompts = _ids(pieces, [head, *sizes], (0, *places), "prompt_ids", vocab, complaint)
    return ReplyArrays(prompts[0], prompts[1:], tokens, logprobs)


def _check(replies: Sequence[Reply], complaint: Complaint) -> None:
    """Look at the sizes."""
    first = len(replies[0].prompt_ids)
    for place, reply in enumerate(replies):
        size, shared = len(reply.token_ids), reply.prompt_shared * ID_BYTES
        if not size:
            raise complaint(place, "token_ids", _NO_TOKENS)
        if len(reply.logprobs) != size:
            given = f"{len(reply.logprobs) // ID_BYTES} log-probabilities"
            raise complaint(place, "logprobs", f"{size // ID_BYTES} tokens have {given}")
        if size % ID_BYTES:
            raise complaint(place, "token_ids", f"{size} bytes are no whole number of ids")
        if not 0 <= shared <= (first if place else 0):
            raise complaint(
                place,
                "prompt_shared",
                f"{reply.prompt_shared} tokens of an earlier prompt cannot be shared: the episode's"
                f" first prompt has {first // ID_BYTES if place else 0} before this reply",
            )
        size = len(reply.prompt_ids)
        if not shared + size:
            raise complaint(place, "prompt_ids", "the reply has no prompt")
        if size % ID_BYTES:
            raise complaint(place, "prompt_ids", f"{size} bytes are no whole number of ids")


def _head_size(replies: Sequence[Reply]) -> int:
    """How many bytes all prompts are known to begin with, so that each has a token behind them."""
    shared = [reply.prompt_shared * ID_BYTES for reply in replies[1:]]
    longest = [
        size + len(reply.prompt_ids) for size, reply in zip([0, *shared], replies, strict=True)
    ]
    return min(min(shared), min(longest) - ID_BYTES) if shared else 0


def _prompts(replies: Sequence[Reply], head: int) -> tuple[list[memoryview | bytes], list[int]]:
    """The pieces of the head and of what each prompt has behind it, and the sizes of the latter,
    in bytes."""
    first = memoryview(replies[0].prompt_ids)
    pieces: list[memoryview | bytes] = [first]  # of the first prompt, head and rest
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
    places: Sequence[int],
    field: str,
    vocab: int | None,
    complaint: Complaint,
) -> list[Ids]:
    """The ids in the pieces, cut into arrays of so many bytes, each of the reply at that place."""
    joined = np.frombuffer(b"".join(pieces), "<i4").astype(np.int32, copy=False)
    cut = [joined[begin:end] for begin, end in _bounds(sizes)]
    limit = vocab or _ANY_ID
    if int(joined.view(np.uint32).max()) >= limit:  # negative ids are large ones here
        for place, ids in zip(places, cut, strict=True):
            for one in ids.tolist():
                if not 0 <= one < limit:
                    why = f"{one} is no token of the model, which has {limit:,}"
                    raise complaint(place, field, why)
    return cut


def _logprobs(pieces: Sequence[bytes], sizes: Sequence[int], complaint: Complaint) -> list[Floats]:
    joined = np.frombuffer(b"".join(pieces), "<f4").astype(np.float32, copy=False)
    cut = [joined[begin:end] for begin, end in _bounds(sizes)]
    # NaN is not below anything, and it is the least and the largest of all.
    if not (joined.max() <= _ROUNDING and isfinite(joined.min())):
        for place, values in enumerate(cut):
            for number, value in enumerate(values.tolist()):
                if not (isfinite(value) and value <= _ROUNDING):
                    why = f"token {number} has {value:g}, which is no log-probability"
                    raise complaint(place, "logprobs", why)
    return cut


def _bounds(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where arrays of so many bytes begin and end, one behind the other, in numbers of ids."""
    begin = 0
    for size in sizes:
        end = begin + size // ID_BYTES
        yield begin, end
        begin = end
