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
    r"|only (one of|the default|be|allowed|valid|supported)|only [\d.]+ is allowed|may only"
    r"|(not|n't) (a |an )?valid (field|parameter|key|property|argument)|should not exist|extraneous"
    r"|no endpoints? found that support"
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
# What follows lists what a server takes instead, or what was sent.
_LISTED = re.compile(
    r"expected one of|\b(known|valid|supported|allowed|accepted|available) "
    r"(property|properties|field|param|key|argument|name|value)\w*( are|:|\b)|\bmust be one of",
    re.IGNORECASE,
)
# A value that is out of range is the user's to correct.
_VALUE = re.compile(
    r"(above|below|exceeds?) (the )?(max|min)imum value|expected a value|out of range"
    r"|(greater|less) than or equal",
    re.IGNORECASE,
)
_IDS = re.compile(
    r"tool[ _-]?(use|call)[ _-]?id|\btool[ _-]?(call|use)s?\b[^.]{0,60}\bids?\b"
    r"|tool_calls?(\[\d*\])?\.?(\d*\.)?id\b"
    r"|tool_call_id|\bcall_id\b|\bids?\b[^.]{0,80}\b(unique|duplicate|pattern|length|characters)\b"
    r"|(duplicate|non-unique|repeated)[^.]{0,40}\bids?\b",
    re.IGNORECASE,
)
_STREAM = re.compile(
    r"only (support|accept|allow|work|available)[^.]{0,40}\bstream|stream(ing)? (mode )?only"
    r"|(non[- ]?stream(ing|ed)?|stream(ing)?[ =:`'\"]+false)[^.]{0,60}(not|n't|un) ?"
    r"(be )?(support|allow|permit|accept)|stream[`'\"]? (must|should|has to) be (set to )?true"
    r"|streaming is (required|mandatory)|(requires?|must use|enable)( the)? [`'\"]?stream"
    r"|must (have|set) [`'\"]?stream|for non-?stream(ing|ed)? (calls|requests)",
    re.IGNORECASE,
)
_TEXT_CONTENT = re.compile(
    r"messages\b.{0,40}\bcontent\b.{0,80}(valid string|expected a string|must be a string"
    r"|string' not in 'null'|not null|got null)|content\b.{0,20}(cannot|must not|can't) be null",
    re.IGNORECASE | re.DOTALL,
)
_SINGLE_CALLS = re.compile(
    r"single tool[ _-]?calls? at once|(multiple|parallel) (tool|function)[ _-]?calls?"
    r"[^.]{0,30}(not|n't|un) ?(be )?(supported|allowed)"
    r"|only (one|a single) (tool|function)[ _-]?call",
    re.IGNORECASE,
)
_RESULT_NAMES = re.compile(
    r"function_?response\.name|\btool messages?[^.]{0,40}(must|needs?|requires?)[^.]{0,20}\bname\b"
    r"|\bname\b[^.]{0,30}(required|missing|empty)[^.]{0,40}\b(role|message)s?[^.]{0,10}\btool",
    re.IGNORECASE,
)
_SYSTEM = re.compile(
    r"system ?(role|message|prompt|instruction)s? (is |are )?(not|n't|un) ?(be )?(supported|allowed"
    r"|enabled)|does not support [`'\"]system"
    r"|(no|not|n't) support( for)? (the )?[`'\"]?system[`'\"]? (role|message)"
    r"|developer instruction is not enabled",
    re.IGNORECASE,
)
_THOUGHT = re.compile(r"reasoning|thinking|thought|signature", re.IGNORECASE)


def refused_parameter(refusal: str, sent: Collection[str]) -> str | None:
    """The parameter that a server does not accept, of those that were sent; None: the refusal is
    about none of them, or about its value.

    Example: "Unsupported parameter: 'seed'", ["temperature", "seed"] -> "seed"
    Example: "seed must be positive", ["seed"] -> None
    """
    found = _UNSUPPORTED.search(refusal)
    if not found or _VALUE.search(refusal):
        return None
    listed = _LISTED.search(refusal)
    if listed and any(_names(refusal[: listed.start()], name) for name in sent):
        refusal = refusal[: listed.start()]
    named = [name for name in sent if _names(refusal, name)]
    if not named:
        return None
    return next((name for name in _ORDER if name in named), named[-1])


def _names(refusal: str, name: str) -> bool:
    camel = re.sub("_(.)", lambda found: found[1].upper(), name)  # xAI's spelling
    return re.search(rf"(?<!\w)({re.escape(name)}|{re.escape(camel)})(?!\w)", refusal) is not None


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


def wants_text_content(refusal: str) -> bool:
    """Whether a server demands a text as the content of a message that has only calls.

    Example: "Invalid type for 'messages[2].content': expected a string, but got null instead." ->
        True
    """
    return _TEXT_CONTENT.search(refusal) is not None


def wants_single_calls(refusal: str) -> bool:
    """Whether a server, or its model's chat template, takes one call a message.

    Example: "This model only supports single tool-calls at once!" -> True
    """
    return _SINGLE_CALLS.search(refusal) is not None


def wants_result_names(refusal: str) -> bool:
    """Whether a server demands the name of the tool beside a result.

    Example: "contents[2].parts[0].function_response.name: Name cannot be empty." -> True
    """
    return _RESULT_NAMES.search(refusal) is not None


def refuses_system(refusal: str) -> bool:
    """Whether a server, or its model's chat template, knows no system messages.

    Example: "System role not supported" -> True
    """
    return _SYSTEM.search(refusal) is not None


def is_about_thoughts(refusal: str) -> bool:
    """Whether a refusal may be about thoughts, or signatures of them, that a history lacks."""
    return _THOUGHT.search(refusal) is not None
