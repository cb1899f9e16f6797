"""Where an answer gives another reason than the accepted one.

The reasons of business English are few, and each has a handful of words: "somebody waits for it",
"there's a queue" and "it's spoken for" are one. So reasons are compared by classes of words that
mean the same (`grounds`), and by how their other longer words begin. Signs of another reason:

- a ground that neither the accepted answer nor the instruction nor a record that was read has
  ("only a manager may do that" where the problem has not got worse);
- a clause behind "because", "since" or "as" that has no ground, no value and few words of the
  accepted answer;
- a reason that is taken back: "would have been big enough", "who wrote it doesn't matter";
- a state that is denied and that the accepted answer affirms: "it isn't confidential".
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from rehearsal_room.judge.code.stated.sentences import (
    COMMON,
    KNOWN,
    Things,
    clauses,
    sentences,
    stems,
)
from rehearsal_room.scenarios.core.statements import are_alike, plain, readings

# Ground -> its words, as they begin.
_GROUNDS = {
    "again": r"again\b|once\b|twice\b|single\b|second\b|further\b|another (?:one|round|time)\b"
    r"|repeat|(?:only|just) one\b|one per\b|more than one\b",
    "before": r"before\b|already\b|earlier\b|previous|in the past\b",
    "somebody else": r"(?:some|any|no)(?:body|one) else|(?:an)?other (?:person|customer|member"
    r"|guest|agent|owner|user|client|patient)|different (?:person|customer|member|guest)|belong"
    r"|colleague|passed on|transfer|whoeve|the (?:person|customer|member|guest) (?:who|it|to)\b"
    r"|only (?:he|she|they)\b|on .{1,20} behalf",
    "mine": r"my own\b|mine\b|myself\b|own\b|same person|themsel|himself|herself|the one who",
    "role": r"supervisor|manager|senior|superior|management|team lead",
    "too late": r"late\b|deadline|cut-?off|window|grace\b|period|out of date|outdated"
    r"|too (?:old|long)|lapse|expir|r[ua]n out\b|ended\b|in time\b|fewer than|older than|days?\b"
    r"|weeks?\b|any ?more\b",
    "waiting": r"wait|queue|in line\b|ahead of|spoken for|(?:her|his|their) turn|reserved\b|jump",
    "full": r"fully booked|(?:is|are) full|no (?:place|seat|room|spot)|sold out|capacity"
    r"|enough room",
    "stock": r"stock\b|quantity|enough\b|sufficient|too (?:little|few)\b|shortage|no more\b"
    r"|all (?:that )?(?:we have|there is)",
    "money": r"budget|funds\b|money\b|too little left",
    "limit": r"limit|exceed|above\b|over (?:my|the)\b|beyond\b|authority|too (?:high|much)\b",
    "absent": r"leave\b|absen|away\b|holiday|sick\b|vacation|time off\b",
    "busy": r"appointment|clash|conflict|overlap|(?:isn't|not|neither) free",
    "blocked": r"blocked|disabled|suspended|barred|deactivat|frozen",
    "paid": r"paid\b|settled\b",
    "unpaid": r"unpaid|outstanding|ow(?:es?|ing)\b|overdue|arrears|debt|past due",
    "under way": r"packed|shipped|dispatched"
    r"|on its way(?! (?:back\b|to (?:your?|her|his|their)\b))|(?:has|had|have) (?:already )?left\b",
    "incomplete": r"missing|incomplete|lacks\b|not complete",
    "fraud": r"fraud|suspicio|forged",
    "secret": r"confidential|secret",
    "spam": r"spam",
    "insult": r"insult|rude\b|abus|offensiv",
    "private": r"personal data|phone number|privacy",
    "worse": r"worse|deteriorat|aggravat",
    "young": r"child|minors?\b|kids?\b|too young|(?:be|is|aged) 1\d\b|1\d years",
    "last": r"last\b|final\b",
    "promise": r"promis",
    "backwards": r"backwards?\b|goes back|runs? back|lower\b|below\b|smaller\b",
    "invented": r"invent|make .{0,20}\bup\b|made up(?! of)",
    "rating": r"(?:bad|poor|low|good) rating|negative|critical|unfavourable|stars?\b|one-star",
    "sale": r"sale\b|sale price|promotion|combin",
    "spelling": r"spell|typo|misspell",
    "same": r"duplicate|same\b|identical|alike",
}
_PATTERNS = {name: re.compile(rf"\b(?:{words})") for name, words in _GROUNDS.items()}
# Grounds with words that hardly stand in another sense.
_CLEAR = frozenset(
    (
        "role",
        "full",
        "incomplete",
        "fraud",
        "secret",
        "spam",
        "insult",
        "private",
        "worse",
        "young",
        "promise",
        "invented",
        "sale",
        "spelling",
        "blocked",
        "under way",
    )
)
_BECAUSE = re.compile(
    r"\b(?:because|since|as(?! an? ) (?=(?:\S+ ){1,6}?(?:is|are|was|were|has|have|had|can|may|must"
    r"|belongs|needs|takes)\b))(?! of\b) ?(.+)"
)
_BY_REQUEST = re.compile(r"(?:you|it (?:is|was)|they (?:are|were))\b|\w+ed,")
_TAKEN_BACK = re.compile(
    r"\bwould (?:have been|be) (?:\w+ )?(?:enough|fine|ok|okay|possible|allowed|sufficient|in time"
    r"|eligible)\b"
    r"|\bwould (?:have )?g(?:o|one) through\b|\b(?:does|do)(?:n't| not) matter\b"
    r"|\b(?:is|was)(?:n't| not) the (?:reason|problem|point)\b"
    r"|\b(?:was|were) (?:in time|within the)\b"
)
_DENIED_STATE = re.compile(
    r"(?<!\bi )(?<!\bwe )\b(?:is|are|was|were|has|have|had)(?:n't| not| never)"
    r"(?: (?:been|yet|even|any|really|a|an|the|in|got|at))* ([a-z]{4,})"
)
_DENIED = re.compile(r"n't\b|\b(?:not|no|never|cannot|neither|nor|none|nothing|nobody|without)\b")
_REFUSES = re.compile(
    r"^.{0,40}?\b(?:can't|cannot|couldn't|can not|unable to|not able to|must) \w+ \w+[.:,]?"
)
# Words without which hardly a sentence is made.
_LITTLE = re.compile(
    r"(?:an?|the|th[aeio]\w+|and|but|so|because|never|some|any|all|both|each|every|no|not|(?:my|our|your|his|her|its|their)|i|you"
    r"|s?he|it|we|me|us|him|who|which|is|are|was|were|be|been|am|has|have|had|do|does|did|can|cannot"
    r"|could|may|might|must|shall|should|will|would|\w+'\w+)"
)
_WORDS = re.compile(r"(?<![\w-])[a-z][a-z']*(?![\w-])")
_LEAST_LITTLE, _LEAST_WORDS = 0.15, 5  # the share of those words, of so many
_SHARE = 1 / 3  # of the words of a reason that the accepted answer has too


@lru_cache(maxsize=KNOWN)
def grounds(text: str, among: frozenset[str] = frozenset(_PATTERNS)) -> frozenset[str]:
    """Those of some grounds that a text, as `plain` writes it, has words of.

    Example: "somebody's in line for it" -> {"waiting"}
    """
    return frozenset(name for name in among if _PATTERNS[name].search(text))


def num_given(accepted: str, answer: str, asked: str) -> int:
    """How many grounds an answer gives; 0 where it lacks one of the accepted answer, but for those
    of the instruction, or denies one that is affirmed there, or the other way round."""
    due = {one for one in _stated(accepted) if one[0] not in grounds(plain(asked))}
    every = frozenset(name for name, _ in due)
    return len(every) if every == {name for name, _ in due & _stated(answer, every)} else 0


def is_heap(answer: str) -> bool:
    """Whether what a refusal says besides refusing is a heap of words, and no sentence."""
    words = _WORDS.findall(_REFUSES.sub("", plain(answer)))
    little = sum(_LITTLE.fullmatch(word) is not None for word in words)
    return len(words) >= _LEAST_WORDS and little < _LEAST_LITTLE * len(words)


@lru_cache(maxsize=KNOWN)
def _stated(text: str, among: frozenset[str] = frozenset(_PATTERNS)) -> frozenset[tuple[str, bool]]:
    """Those of some grounds that a text has, each with whether its clause is denied."""
    return frozenset(
        (ground, _DENIED.search(part) is not None)
        for sentence in sentences(text)
        for part in clauses(sentence)
        for ground in grounds(part, among)
    )


def other_reasons(
    accepted: str, answer: str, things: Things, *, asked: str, states: str, is_refusal: bool
) -> Iterator[str]:
    """Where an answer gives another reason than the accepted one, as phrases. `asked` is the
    instruction, `states` are the words of the records that were read."""
    one, other = plain(accepted), plain(answer)
    foreign = grounds(other, _CLEAR)
    for text in (one, plain(asked), states):
        foreign = foreign and foreign - grounds(text)
    if foreign:
        yield f"gives another reason: {min(foreign)}"
    for clause in _because(answer):
        if not _is_of(clause, accepted, things):
            yield f"gives a reason that the accepted answer does not have: {clause!r}"
    taken_back = _TAKEN_BACK.search(other)
    if taken_back and not _TAKEN_BACK.search(one):
        yield f"takes a reason back: {taken_back[0]!r}"
    if is_refusal:
        affirmed, denied = _states(accepted)
        for word in sorted(_states(answer)[1] & affirmed - denied):
            yield f"denies what the accepted answer states: {word!r}"


def _because(answer: str) -> Iterator[str]:
    for sentence in sentences(answer):
        found = _BECAUSE.search(sentence)
        if found and not _BY_REQUEST.match(found[1]):
            yield found[1]


def _is_of(clause: str, accepted: str, things: Things) -> bool:
    """Whether a clause that gives a reason has a ground, a value or enough words of the accepted
    answer; one that has none at all says nothing."""
    if grounds(clause) & grounds(plain(accepted)):
        return True
    due = readings(accepted)
    if any(
        are_alike(value, one) for value in readings(clause) if not value.is_loose for one in due
    ):
        return True
    words = stems(clause) - {word[:5] for name in things.named(clause) for word in name.split()}
    return len(words & stems(accepted)) >= _SHARE * len(words)


@lru_cache(maxsize=KNOWN)
def _states(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """How the words begin of what a text affirms, and of the states that it denies."""
    affirmed, denied = set[str](), set[str]()
    for sentence in sentences(text):
        denied |= {word[:5] for word in _DENIED_STATE.findall(sentence) if not COMMON.match(word)}
        affirmed |= {
            word for part in clauses(sentence) if not _DENIED.search(part) for word in stems(part)
        }
    return frozenset(affirmed), frozenset(denied)
