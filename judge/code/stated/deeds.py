"""Where an answer changes how far a deed has come, in the accepted answer's own words.

"Payments control has to verify it" and "it has been verified" have the same words, and so have "I
asked for a swap" and "the swap is agreed". A verb that the accepted answer has only as a duty, a
wish or a condition is not done, and one that it has only as done is not due; what it only asks for
nobody has done; what it ended is not still there, and what it leaves out was not done "too".
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from rehearsal_room.judge.code.stated.sentences import sentences
from rehearsal_room.judge.code.stated.understood import alike, is_plain, stem
from rehearsal_room.scenarios.core.statements import plain

_CLAUSE = re.compile(r", |: |; |\(| (?:and|but|because|so|since|while) ")
_WORD = re.compile(r"[^\W\d_]{4,}")
_NOT = r"n't|not|never|no|cannot|neither|nor|without|unable|nothing|nobody|none"
_DENIED = re.compile(rf"n't\b|\b(?:{_NOT})\b")
_DUE = re.compile(
    r"'(?:ll|d)\b|\b(?:will|would|could|can|may|might|must|should|shall|until|if|unless|before|once|ask\w*"
    r"|(?:has|have|needs?|still|yet|going|due|for \w+) to|to be|pending)\b"
)
_DUE_NOW = re.compile(r"(?:'ll|\bwill|\bto|\bshall)(?: be| have| get| then| soon)* $")
_DONE_NOW = re.compile(
    r"(?:'(?:ve|s|m|re)|\b(?:is|are|was|were|been|got|ha[sd]|have|i|we|he|she|they|and|now|already|just))"
    r"(?: now| already| just| also| since)* $"
)
_PAST = re.compile(r"\w{2,}ed|paid|sent|hidden|withdrawn|sold|lent|given|taken|done")
_I_ASKED = re.compile(
    r"\b(?:i|we)(?:'ve| have)? (?:asked|requested|put in|referred|passed|escalated)\b|\bis asked\b"
)
_ASKS = re.compile(
    r"\b(?:ask|request|put in|appl(?:y|ied)|referred|pass(?:ed)? |hand|escalat|propos|pending"
    r"|deci[ds]|approv|supervis|would |wait|senior|turn to|call for)"
)
_LASTING = re.compile(
    r"\b(?:still|stay|remain|keep|kept|left|leave|open|outstanding|unpaid|already|before|until)"
)
_STILL = re.compile(
    r"\bstill (?:on|in|at|has|have|with|down|there|booked|listed|registered|assigned|attending)\b"
)
_ASIDE = re.compile(
    rf"n't\b|\b(?:{_NOT}|stays?|still|left|remains?|keeps?|kept|only|except|declined|refused|rejected)\b"
)
_TOO = re.compile(r"\b(?:too|as well|also|likewise)$")
_SAID_BY_OTHERS = re.compile(
    r"\b(?:they|he|she|who|everyone|everybody)(?:'ve|'s| have| has| had)? "
    r"(said|agreed|accepted|promised|confirmed|refused|insisted|admitted|denied)\b"
)
Named = Callable[[str], Sequence[str]]  # the things that a text, as `plain` writes it, names
_KNOWN = 1024  # texts whose parts are remembered


@lru_cache(maxsize=_KNOWN)
def _clauses(text: str) -> tuple[str, ...]:
    return tuple(one for each in sentences(text) for one in _CLAUSE.split(each))


@lru_cache(maxsize=_KNOWN)
def _uses(text: str) -> Mapping[str, frozenset[str]]:
    """Each stem that can be claimed, and how the text has it: done, due, maybe, denied, named."""
    found: dict[str, set[str]] = {}
    for clause in _clauses(text):
        for word in _WORD.finditer(clause):
            if not is_plain(one := stem(word[0])):
                before = clause[: word.start()]
                found.setdefault(one, set()).add(_use(before, word[0]))
    return {one: frozenset(uses) for one, uses in found.items()}


def _use(before: str, word: str) -> str:
    if _DENIED.search(before):
        return "denied"
    if _DUE_NOW.search(before) and not before.endswith("had to "):
        return "due"
    if _DUE.search(before):
        return "maybe"
    return "done" if _PAST.fullmatch(word) and _DONE_NOW.search(before) else "named"


def other_stages(
    accepted: str, answer: str, named_in: Named, *, context: str, is_refusal: bool
) -> Iterator[str]:
    """Where an answer says of a deed that it is done, due, asked for or still so, and the accepted
    one does not, or what somebody else said, as phrases. `context`: the accepted answer and the
    instruction, as plain text."""
    theirs = _uses(accepted)
    undone = {"due", "maybe", "denied"} if is_refusal else {"due", "maybe"}
    for one, uses in _uses(answer).items():
        known = theirs.get(one)
        if is_refusal and not known and "done" in uses:  # what was refused, in another word
            known = frozenset[str]().union(*(theirs.get(two, ()) for two in alike(one)))
        if known and "done" in uses and known <= undone:
            yield f"says that something is done: {one!r}"
        elif known == frozenset(("done",)) and "due" in uses and "done" not in uses:
            yield f"says that something is yet to be done: {one!r}"
    for found in _SAID_BY_OTHERS.finditer(plain(answer)):
        if found[1] not in context:
            yield f"says what others say: {found[0]!r}"
    if _I_ASKED.search(plain(accepted)) and not _ASKS.search(plain(answer)):
        yield "says of something only asked for that it is so"
    yield from _still_so(accepted, answer, named_in)
    if not is_refusal:
        yield from _done_too(accepted, answer)


def _still_so(accepted: str, answer: str, named_in: Named) -> Iterator[str]:
    lasting = {
        one for each in sentences(accepted) if _LASTING.search(each) for one in named_in(each)
    }
    for clause in _clauses(answer):
        named = set(named_in(clause)) if _STILL.search(clause) else set()
        if named and named <= set(named_in(plain(accepted))) - lasting:
            yield f"says that something is still so: {min(named)}"


def _done_too(accepted: str, answer: str) -> Iterator[str]:
    ends = [one for one in _clauses(answer) if _TOO.search(one) and not _ASIDE.search(one)]
    if ends:
        parts = [(one, _ASIDE.search(one)) for one in _clauses(accepted)]
        done = {word for one, aside in parts if not aside for word in _WORD.findall(one)}
        left = {word for one, aside in parts if aside for word in _WORD.findall(one)} - done
        for one in ends:
            if found := left.intersection(_WORD.findall(one)):
                yield f"says of an exception that it was done too: {min(found)}"
