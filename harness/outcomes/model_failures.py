"""Episodes that failed for want of a model: how many, and why."""

import re
from collections import Counter
from collections.abc import Iterable

from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.scenarios.core.short_text import shortened

LARGEST_SHARE = 0.1  # of the episodes of a run that still shows something about its model
_MAX_CAUSE = 100  # characters
_SERVER = re.compile(r"^model '.*?' at \S+: ", re.DOTALL)
_OUTAGES = re.compile(r"(Connect(ion)?|Timeout)(Error)?$")  # names of exceptions
_ATTEMPTS = re.compile(r" \(after [\d,]+ attempts?\)$")


_FIRST_PROMPT = "the first prompt does not fit into the model's context"
_NEEDED = re.compile(
    rf"^{_FIRST_PROMPT} \(world (?P<world>.+?), about (?P<tokens>[\d,]+) tokens\): (?P<fault>.*)",
    re.DOTALL,
)


def first_prompt_error(world: str, tokens: int, fault: str) -> str:
    """The error of an episode whose first prompt is too long for the model; `fault` is what the
    server says."""
    return f"{_FIRST_PROMPT} (world {world}, about {tokens:,} tokens): {fault}"


def first_prompts_line(rows: Iterable[EpisodeRow]) -> str:
    """Which world needs the longest first prompt, of those that the model could not play; empty:
    it could play all."""
    found = [
        match
        for row in rows
        if row.ending is Ending.POLICY_ERROR and (match := _NEEDED.match(row.error or ""))
    ]
    if not found:
        return ""
    most = max(found, key=lambda match: int(match["tokens"].replace(",", "")))
    return (
        f"{_FIRST_PROMPT} in {plural(len(found), 'episode')}, which say nothing about the agent:"
        f" the largest world is {most['world']}, with about {most['tokens']} tokens; the server"
        f" says: {cause_of(most['fault'])}"
    )


def lacks_model(failures: int, episodes: int) -> bool:
    """Whether more than a tenth of the episodes failed because the model could not answer."""
    return failures > LARGEST_SHARE * episodes


def failure_causes(rows: Iterable[EpisodeRow]) -> dict[str, int]:
    """The number of such episodes by cause, the most frequent first."""
    causes = Counter(cause_of(row.error or "") for row in rows if row.ending is Ending.POLICY_ERROR)
    return dict(sorted(causes.items(), key=lambda item: (-item[1], item[0])))


def is_outage(exc: BaseException) -> bool:
    """Whether an exception of some client of a model server means that the server could not answer:
    no connection, no answer in time, too many requests, or a failure of its own.

    Clients have classes of their own for it (openai.APIConnectionError, httpx.ConnectTimeout), so
    names and status codes are read, along the causes.
    """
    seen: set[int] = set()
    one: BaseException | None = exc
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        status = getattr(one, "status_code", None)
        if isinstance(status, int):
            return status == 429 or status >= 500
        if isinstance(one, ConnectionError | TimeoutError) or _OUTAGES.search(type(one).__name__):
            return True
        one = one.__cause__ or one.__context__
    return False


def cause_of(error: str) -> str:
    """The error of an episode without the model's name, its URL and the number of attempts.

    Example: "model 'm' at http://127.0.0.1:9/v1: connection refused (after 8 attempts)" ->
        "connection refused"
    """
    if error.startswith(_FIRST_PROMPT):
        return _FIRST_PROMPT
    return shortened(_ATTEMPTS.sub("", _SERVER.sub("", " ".join(error.split()))), _MAX_CAUSE)
