"""What an answer only asks, supposes, doubts, quotes or puts off, and so does not state.

"Is it RQ-11?", "maybe it is RQ-11" and "it is false that RQ-11 is approved" hold every value that
"RQ-11 is approved" holds. A sentence of this kind proves nothing: what it alone has of the accepted
answer is not stated. Words that take everything back are read in the same way wherever they stand
("this is only a guess"). What the accepted answer says itself, in these words, is left alone.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from rehearsal_room.scenarios.core.statements import are_alike, plain, readings

_PART = re.compile(r"(?<=[.!?;])\s+|\n+")
_MAYBE = r"maybe|perhaps|possibly|presumably|hypothetical(?:ly)?|supposedly|allegedly|potentially"
_UNSTATED = re.compile(
    rf"^\W*(?:{_MAYBE}|suppos(?:e|ing)|assum(?:e|ing)|imagine|unless|whether|either|tomorrow|soon"
    r"|if (?:all|everything|it|that|this|so|not|allowed|possible)|(?:some|no)(?:body|one) (?:can )?"
    r"(?:says?|said|claims?|claimed|thinks?|tol[d])|far from)\b|^\W*not:"
    rf"|^[^:]{{0,50}}\b(?:{_MAYBE}|wrong|false|untrue|example|draft|fiction|lie|rumou?r|look like"
    r"|tomorrow|would be|would say)\b[^:]{0,30}:"
    r"|\b(?:i|we)(?:'m| am| was)?(?: do(?:n't| not)| did(?:n't| not)| would(?:n't| not)|'d| would)?"
    r" (?:doubt|guess|suppose|imagine|assume|claim|think|believe|say|not (?:sure"
    r"|certain)) (?:that|if"
    r"|whether|it|this|the|so)\b"
    r"|\b(?:i|we) (?:was|were|am|'m) going to\b|\b(?:i|we) would have\b"
    r"|\b(?:it is|it's|that's|is it) (?:hardly|false|untrue|a lie|not true|not the case|not so"
    r"|unlikely|doubtful|possible|probable|wrong|true) (?:that|to say)\b"
    r"|\bit (?:may|might|could)(?: well)? be\b|\bor not\W*$|\bunless (?:i'm|i am|it|that)\b"
    r"|\b(?:can|could) (?:hardly|scarcely) be\b|\?\W*$"
)
# A question that begins like this may be an offer.
_OFFER = re.compile(r"\W*(?:shall|should|would you|do you|can|may|could|is there|are there|any)\b")
_LONG = re.compile(r"[^\W\d_]{4,}")
_TAKEN_BACK = re.compile(
    r"\b(?:only|just|merely|nothing but)(?: an?| my)? (?:\w+ )?(?:guess|guesses|estimate|assumption"
    r"|example|joke|joking|kidding|draft|idea|plan|proposal|simulation|test)\b"
    r"|\bso i (?:think|guess|hope|believe|was tol[d])\b"
    r"|\bi (?:have|did|could)(?:n't| not) (?:\w+ )?(?:check|verify|confirm|test"
    r"|look at)\w* (?:any|it|this"
    r"|that|these|them|all)\b"
    r"|\b(?:that|this|it)(?:'s| is) (?:what|how) (?:i|we|one) (?:would|could|might|plan|intend)"
    r"|\b(?:not|n't) (?:really|actually)(?:,? though|,? however)?\W*$"
    r"|\bthe (?:reverse|opposite|contrary) (?:is|was|holds|applies|happened)\b"
    r"|\bthe other way (?:a)?round (?:is|was)\b"
    r"|\b(?:isn't|is not|wasn't|was not|not) true\b"
    r"|\b(?:reason|cause|problem) (?:isn't|is not|wasn't|was not)\b"
    r"|~~\S|<!--"
)
_NOTHING_DONE = re.compile(
    r"\b(?:nothing|none)(?: of (?:this|that|it|these|those|them|the above|the sort|the kind))?"
    r"(?: was| were| has| have)?(?: actually| really| ever)?(?: been)? (?:happened|done"
    r"|carried out)\b"
    r"|\b(?:still|yet) (?:has |have |needs? )?to (?:be done|do|happen)\b"
    r"|\b(?:has|have|needs?) (?:still )?to be done by (?:you|someone|somebody)\b"
)
_COMMON = frozenset(
    (
        *("them", "they", "this", "that", "these", "those", "with", "from", "have", "been"),
        *("were", "will", "would", "made", "their", "your", "also", "only", "more", "than"),
        *("when", "what", "which", "there", "here", "into", "some", "such", "very", "just"),
        *("then", "after", "before", "both", "each", "again", "even", "much", "most"),
        *("other", "over", "under", "until", "about", "could", "cannot", "does", "because"),
        *("since", "still"),
    )
)
_SHOWN = 60  # characters of a sentence in a message
_SAME_FOR_ALL = re.compile(
    r"\b(?:same|likewise)\b.{0,40}\b(?:all (?:of )?(?:the )?others?|everyone|everybody"
    r"|the rest|all of them)\b"
)
_LEAST_WORDS = 3  # that only an unstated sentence has of the accepted answer
_SHARE = 0.5


def unstated(accepted: str, answer: str, *, is_refusal: bool) -> Iterator[str]:
    """What an answer does not state though it holds it, as phrases."""
    one, other = plain(accepted), plain(answer)
    for pattern in (_TAKEN_BACK, *(() if is_refusal else (_NOTHING_DONE,))):
        found = pattern.search(other)
        if found and not pattern.search(one):
            yield f"takes back what it states: {found[0]!r}"
    found = _SAME_FOR_ALL.search(other)
    if found and found[0] not in one:
        yield f"claims it of all others: {found[0]!r}"
    parts = _parts(answer)
    weak = [at for at, part in enumerate(parts) if part not in one and _UNSTATED.search(part)]
    said = (part for part in _parts(accepted) if not part.endswith("?"))  # to the user before
    if weak and any(map(_UNSTATED.search, said)):
        weak = [at for at in weak if parts[at].endswith("?")]
    if not weak:
        return
    first = weak[0]
    if parts[first].find(":") >= 0 and _UNSTATED.search(parts[first].partition(":")[0] + ":"):
        weak = list(range(first, len(parts)))  # what follows is what it only supposes
    stating = " ".join(part for at, part in enumerate(parts) if at not in weak)
    for at in weak:
        if lacking := _only_here(one, parts[at], stating, is_question=parts[at].endswith("?")):
            yield f"does not state {lacking}: {parts[at][:_SHOWN]!r}"
            return


def _only_here(accepted: str, part: str, stating: str, *, is_question: bool) -> str:
    """What a part has of the accepted answer that the parts which state something lack; of a
    question, which may be an offer, only values."""
    due = [one for one in readings(accepted) if not one.is_loose]
    said = readings(stating)
    for value in readings(part):
        is_due = not value.is_loose and any(are_alike(value, one) for one in due)
        if is_due and not any(are_alike(value, one) for one in said):
            return part[value.start : value.end]
    words = _stems(accepted)
    if not words & _stems(stating):
        return "what is asked for"
    only = (_stems(part) & words) - _stems(stating)
    if not is_question:
        return "what is asked for" if only else ""
    is_offer = _OFFER.match(part)
    is_much = len(only) >= _LEAST_WORDS and len(only) >= _SHARE * len(_stems(part))
    return "what is asked for" if is_much and not is_offer else ""


@lru_cache(maxsize=256)
def _parts(answer: str) -> tuple[str, ...]:
    lines = (plain(line) for line in answer.splitlines())
    return tuple(part for line in lines for part in _PART.split(line) if part.strip(" -|"))


@lru_cache(maxsize=1024)
def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:5] for word in _LONG.findall(text) if word not in _COMMON)
