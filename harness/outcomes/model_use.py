"""What the model behind the policy took: requests, tokens, time and money, from the log alone.

The replies of the latest attempts count, so that a run that was resumed says the same as one that
was not; replies that a fork took over do not. Requests of a reply that never came are not in the
log.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from rehearsal_room.harness.core.events import AGENT
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.harness.log.schema import EpisodeRow


class ModelUse(msgspec.Struct, frozen=True):
    """Requests and tokens of a run's replies."""

    replies: int
    requests: int  # attempts, failed ones included
    retries: int
    prompt_tokens: int
    cached_tokens: int  # the part of prompt_tokens that came from the server's prefix cache
    completion_tokens: int
    reasoning_tokens: int  # the part of completion_tokens that the server names so
    cost_usd: float | None = None  # None: the model's price is not known


class ReplyTimes(msgspec.Struct, frozen=True):
    """How long replies took, waits before further attempts included, in seconds."""

    p50_s: float
    p95_s: float
    p99_s: float
    rate_limited_s: float  # waits after rate limits, summed over all replies


class TokenCount(NamedTuple):
    """Tokens of some replies."""

    prompt: int = 0
    cached: int = 0  # the part of `prompt` that came from the server's prefix cache
    completion: int = 0


def sum_of_tokens(counts: Iterable[TokenCount]) -> TokenCount:
    """All of them together."""
    return TokenCount(*map(sum, zip(TokenCount(), *counts, strict=True)))


class ReadModelUse(NamedTuple):
    """What is read of a run's replies."""

    use: ModelUse
    times: ReplyTimes
    tokens: Mapping[str, TokenCount]  # by episode; without those that have no reply


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


_NO_USAGE = _Usage()


class _Reply(msgspec.Struct, frozen=True):
    usage: _Usage = _NO_USAGE
    attempts: int = 1
    limited_s: float = 0.0


class _Replied(msgspec.Struct, frozen=True):
    """What is read of a reply: decoding all of it takes ten times as long."""

    reply: _Reply | None = None
    policy_s: float = 0.0
    seconds: float = 0.0


class _Fork(msgspec.Struct, frozen=True):
    turn: int = 0


class _Started(msgspec.Struct, frozen=True):
    policy: str = ""
    forked_from: _Fork | None = None


_replied = msgspec.msgpack.Decoder(_Replied).decode
_started = msgspec.msgpack.Decoder(_Started).decode


def has_model(rows: Sequence[EpisodeRow]) -> bool:
    """Whether a model played: policies that ask none have no model in their name."""
    return any(":" in row.policy for row in rows)


def read_model_use(reader: LogReader, rows: Sequence[EpisodeRow]) -> ReadModelUse | None:
    """What the replies of these episodes took; None: there is no reply. Raises LogError."""
    latest = {row.episode: row.attempt for row in rows}
    asks_itself: dict[str, bool] = {}  # whether an agent of the user's own plays
    left_out: dict[str, int] = {}  # replies of forks that are another run's
    seconds, limited_s = array("d"), 0.0
    requests = reasoning = 0
    sums: dict[str, list[int]] = {}
    position = 0
    while stored := reader.stored_after(position, 5_000):
        for _, episode, attempt, kind, _, data, _ in stored:
            if latest.get(episode) != attempt:
                continue
            if kind == "started":
                started = _started(data)
                asks_itself[episode] = started.policy.startswith(AGENT)
                fork = started.forked_from
                left_out[episode] = 0 if fork is None else fork.turn
            elif kind in ("step", "summary", "model"):
                if left_out.get(episode):
                    left_out[episode] -= 1
                    continue
                if kind == "step" and asks_itself.get(episode):
                    continue  # a call of an agent that asks the model by itself
                one = _replied(data)
                if one.reply is None:
                    continue
                usage = one.reply.usage
                requests += one.reply.attempts
                sum_of = sums.setdefault(episode, [0, 0, 0])
                sum_of[0] += usage.prompt_tokens
                sum_of[1] += usage.cached_tokens
                sum_of[2] += usage.completion_tokens
                reasoning += usage.reasoning_tokens
                limited_s += one.reply.limited_s
                seconds.append(one.seconds if kind == "model" else one.policy_s)
        position = stored[-1][0]
    if not seconds:
        return None
    replies, ordered = len(seconds), sorted(seconds)
    tokens = {episode: TokenCount(*counts) for episode, counts in sums.items()}
    total = sum_of_tokens(tokens.values())
    use = ModelUse(replies, requests, requests - replies, *total, reasoning)
    p50, p95, p99 = (ordered[max(0, round(rank * replies) - 1)] for rank in (0.5, 0.95, 0.99))
    return ReadModelUse(use, ReplyTimes(p50, p95, p99, limited_s), tokens)


def model_use_lines(use: ModelUse, times: ReplyTimes | None) -> list[str]:
    """Both in two lines.

    Example: "14 requests for 12 replies (2 retries, 3.1 s of waits after rate limits), 9,120 tokens
    in (8,000 cached), 310 out"
    """
    limits = times.rate_limited_s if times is not None else 0.0
    retries = "1 retry" if use.retries == 1 else f"{use.retries:,} retries"
    replies = "1 reply" if use.replies == 1 else f"{use.replies:,} replies"
    notes = [retries] if use.retries else []
    notes += [f"{limits:,.1f} s of waits after rate limits"] if limits else []
    noted = f" ({', '.join(notes)})" if notes else ""
    cached = f" ({use.cached_tokens:,} cached)" if use.cached_tokens else ""
    reasoning = f" ({use.reasoning_tokens:,} of reasoning)" if use.reasoning_tokens else ""
    cost = "cost not known (see --prices)" if use.cost_usd is None else f"{use.cost_usd:,.4f} USD"
    lines = [
        f"{plural(use.requests, 'request')} for {replies}{noted}, "
        f"{use.prompt_tokens:,} tokens in{cached}, {use.completion_tokens:,} out{reasoning}; {cost}"
    ]
    if times is not None:
        took = f"{times.p50_s:.2f} s (p50), {times.p95_s:.2f} s (p95), {times.p99_s:.2f} s (p99)"
        lines.append(f"replies took {took}")
    return lines
