"""What a refusal of a request is about: a parameter, the ids of calls, or missing thoughts.

Servers have no common code for any of these, so their words are listed here.
"""

import re
from collections.abc import Collection

_UNSUPPORTED = re.compile(
    r"(not|n't|un|never|no longer) ?(currently |yet |be |been )?(supported|support|permitted"
    r"|allowed|accepted|accept|recogni[sz]ed|known|expected|available|implemented|compatible|valid\b)"
    r"|extra_forbidden|extra (inputs?|fields?)|additional ?properties|unknown|unrecogni[sz]ed"
    r"|unexpected|cannot find field|no such (field|parameter)|deprecated|incompatible|forbidden"
    r"|invalid[ _](parameter|argument|field|key|property)|mutually exclusive|(cannot|not) both"
    r"|only (one of|the default|be|allowed|valid|supported)|may only"
    r"|must be (omitted|unset|removed)|use '?\w+'? instead|\binstead\b",
    re.IGNORECASE,
)
# Of several parameters in one refusal, that one is left out which changes the replies least.
_ORDER = (
    *(
        "stream_options",
        "stream",
        "top_logprobs",
        "logprobs",
        "parallel_tool_calls",
        "tool_choice",
        "seed",
    ),
    *("max_completion_tokens", "max_tokens", "top_p"),
)
_IDS = re.compile(
    r"\btool[ _-]?(call|use)s?\b[^.]{0,60}\bids?\b|tool_calls?(\[\d*\])?\.?(\d*\.)?id\b"
    r"|tool_call_id|\bcall_id\b|\bids?\b[^.]{0,80}\b(unique|duplicate|pattern|length|characters)\b"
    r"|(duplicate|non-unique|repeated)[^.]{0,40}\bids?\b",
    re.IGNORECASE,
)
_STREAM = re.compile(
    r"only (support|accept|allow|work|available)[^.]{0,40}\bstream|stream(ing)? (mode )?only"
    r"|(non[- ]?stream(ing|ed)?|stream(ing)?[ =:`'\"]+false)[^.]{0,60}(not|n't|un) ?"
    r"(be )?(support|allow|permit|accept)|stream[`'\"]? (must|should|has to) be (set to )?true"
    r"|streaming is (required|mandatory)|(requires?|must use|enable)( the)? [`'\"]?stream",
    re.IGNORECASE,
)
_THOUGHT = re.compile(r"reasoning|thinking|thought|signature", re.IGNORECASE)


def refused_parameter(refusal: str, sent: Collection[str]) -> str | None:
    """The parameter that a server does not accept, of those that were sent; None: the refusal is
    about none of them, or about its value.

    Example: "Unsupported parameter: 'seed'", ["temperature", "seed"] -> "seed"
    Example: "seed must be positive", ["seed"] -> None
    """
    if not _UNSUPPORTED.search(refusal):
        return None
    named = [name for name in sent if _names(refusal, name)]
    if not named:
        return None
    return next((name for name in _ORDER if name in named), named[-1])


def _names(refusal: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", refusal) is not None


def wants_stream(refusal: str) -> bool:
    """Whether a server says that it answers in a stream only.

    Example: "This model only support stream mode, please enable the stream parameter" -> True
    """
    return _STREAM.search(refusal) is not None


def is_about_ids(refusal: str) -> bool:
    """Whether a refusal is about the ids of tool calls.

    Example: "Tool call id was c0-0 but must be a-z, A-Z, 0-9, with a length of 9." -> True
    """
    return _IDS.search(refusal) is not None


def is_about_thoughts(refusal: str) -> bool:
    """Whether a refusal may be about thoughts, or signatures of them, that a history lacks."""
    return _THOUGHT.search(refusal) is not None
