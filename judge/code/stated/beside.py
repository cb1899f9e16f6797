"""Clauses that are beside the case: they state what no text of it speaks of.

"It left the warehouse an hour ago" has only words that are understood, and so has "he may keep
them". Lies in plain words are of few kinds:

- a clause that has no word of the case, or mostly others, of which somebody could say whether it is
  so. Courtesies, offers and what the agent says of its own looking are none, and neither is what
  only relates the things of the case ("that one remains with Anna Soll") or denies something;
- a deed or a state of somebody of which the accepted answer has no word: "a colleague refunded it",
  "Anna Soll has read it", "she can't come";
- what became of another thing: "the second one is gone";
- something added to a deed: "for a surcharge", "as store credit", "I sold it, too";
- a deed in a double negative: "I did not hesitate to cancel it".
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from rehearsal_room.judge.code.stated.sentences import Things, fragments, sentences, statements
from rehearsal_room.judge.code.stated.understood import (
    FRAMING,
    GRAMMAR,
    LINKING,
    Vocabulary,
    entries,
    is_common,
    is_named_only,
    stem,
)
from rehearsal_room.scenarios.core.statements import Reading, are_alike, plain, readings

_ACTORS = (
    "supervisor|manager|boss|coworker|agent|assistant|teammate|teacher|instructor|trainer|driver"
    "|guest|colleague|friend|staff|mother|father|parent|son|daughter|brother|sister|wife|husband"
    "|courier|carrier|supplier|bank|police|insurer|neighbour|somebody|someone|person|people"
    "|man|woman|customer|client|member|handler|owner|airline|company|crew|team|department"
)
_DID = (
    r"(?:is|are|was|were|has|have|had|'s|'ve|will|'ll|did|\w+ed|went|got|gave|took|made|paid|sent"
    r"|put|let|said|left|came|ran|wrote|\w+s)\b"
)
_MAY = r"who|can|could|must|may|might|should|would|needs?|ha(?:s|ve) to|will have to"
_AND = r"^(?:(?:and|but|so|because|since|as|while|which|although) )?"
_ACTS = re.compile(
    rf"{_AND}(?:(?:an?|the|my|our|your|his|her|their|another|some|one of (?:my|our|the)) )?"
    rf"(?:(?!\w+ing )\w+ )?(?!\w+s (?:have|are|get)\b)({_ACTORS})s?"
    rf"(?: (?!(?:{_MAY})\b)[\w'-]+){{0,5}}? {_DID}"
    rf"|{_AND}(nobody)(?: else)? (?:has|have|had|did|was|were|\w+ed|tol[d])\b"
    r"|\b(?:of|for) (?:another|a different) (\w+)"
    rf"|\b(?:by|to|with) (?:(?:an?|the|my|our|another|some) )?(?:\w+ )?({_ACTORS})\b"
)
# What somebody of the case is, in front of what is said of them.
_AS = re.compile(rf"^as an? (?:\w+ ){{0,2}}?(?:{_ACTORS}) (?=(?:i|you|s?he|we|they)\b)")
_NOT_TO_FAIL = re.compile(
    r"(?:n't|\bnot|\bnever) (?:hesitate|fail|forget|neglect|refrain|omit|stop|resist|mind|skip)\b"
    r"(?! to (?:ask|contact|reach|write|call|let|get|say)\b)"
    r"|\b(?:nothing|nobody|no one) (?:stopped|kept|prevented|hindered) (?:me|us)\b"
)
_WITH = re.compile(
    r"\b(?:(?:for|without)(?: an?| our)?|as|by|via|against|in)"
    r"((?: (?!the\b|to\b|an?\b|th[aeio]\w+\b|its\b|h[ei][rs]\b|your\b|my\b|both\b|each\b|all\b)"
    r"[a-z'-]+){1,2})"
)
_ADDED = re.compile(r"(?:with|in|on|at|by|for|from|under|against|without|to|via|as)\b")
_TOO = re.compile(r"\b(?:too|as well)$")
_BOTH = re.compile(r"\b(?:too|as well|both|all|each|also)\b")
_TOGETHER = re.compile(r"\b(?:together|jointly) with\b")
_JOINED = re.compile(r"\b(?:together|both|jointly|along with)\b")
_DENIED = re.compile(r"n't\b|\b(?:not|no|never|cannot|neither|nor|none|nothing|unable)\b")
_OPEN = re.compile(
    r"\b(?:can|could|may|might|must|should|would|needs?|if|please|ha(?:s|ve) to|shall|let|unless"
    r"|until|only)\b|\?"
)
_MINE = re.compile(r"^(?:(?:and|but|so|as|then) )?(?:i|we)\b")
_MINE_TOO = re.compile(r"\b(?:i|we)\b")
_OTHERS = re.compile(r"\b(?:s?he|they|him|her|them|who|which|it)\b")
_LOOKED = re.compile(
    r"^(?:i|we)(?:'ve| have)? (?:\w+[- ])?"
    r"(?:checked|looked|reviewed|read|searched|examined|compared)\b"
)
_SIGNED = re.compile(
    r"(?i:regards|wishes|sincerely|faithfully|cheers|thanks),?[ \t]{0,4}\r?\n{1,3}.{0,40}$"
)
_SUBJECT = re.compile(
    rf"{_AND}((?:(?!(?:i|we|you|it|s?he|they|that|this|there|who|which|what|both|these|those|all|one"
    r"|each|nothing)\b)[\w'-]+ ){1,5}?)"
    r"(?:is|are|was|were|has|have|had|will|went|goes|comes|came|looks|shows|wants|needs)\b"
)
_OTHER = re.compile(
    rf"{_AND}(?:(?:the|his|her|their|your|my|our) )?"
    r"(?:another|other|second|third|further|additional)\b"
)
_REST = re.compile(r"\b(?:another|others?|second|third|rest|remaining)\b")
_STAYS = re.compile(
    r"\b(?:stays?|remains?|unchanged|untouched|unaffected|as (?:it|they)|still|keeps?|kept|left)\b"
)
# Somebody, and what is said of them; "*" is a name.
_SOMEBODY = re.compile(
    rf"{_AND}(?:s?he|they(?!'ll| will)|who|n(?:either|one) of (?:them|the two)"
    r"|\*(?!'s (?!not|a |late|already)))(.+)"
)
_DEED = re.compile(
    r"^(?:'(?:ve|ll))?"
    r"(?: (?:has|have|had|will|did|now|just|already|also|since|then|still|\w+ly))*"
    r" (?!be|(?:is|are|was|were)\b)(.+)"
)
_KEEPS = re.compile(r"(?:keeps?|kept|stay(?:s|ed)?|remain(?:s|ed)?|retains?|continues?)\b")
_IS_SO = re.compile(r"^(?:'s|'re| is| are| was| were)\b|n't\b|\bnot\b|\bneither\b|\bnone\b")
_CODE = re.compile(r"[a-z]+(?=-?\d)")
_DIGIT = re.compile(r"\d")


class _Case(NamedTuple):
    accepted: str  # the accepted answer, as `plain` writes it
    due: tuple[Reading, ...]  # its values
    known: Vocabulary
    things: Things

    def has_value(self, part: str) -> bool:
        """Whether a clause has a value of the accepted answer."""
        values = [value for value in readings(part) if not value.is_loose]
        return any(are_alike(one, two) for one in values for two in self.due)


def beside_the_case(accepted: str, answer: str, known: Vocabulary, things: Things) -> Iterator[str]:
    """What an answer claims beside the case, as phrases."""
    if not known.words:
        return
    due = tuple(value for value in readings(accepted) if not value.is_loose)
    case = _Case(plain(accepted), due, known, things)
    other = plain(answer)
    if found := _NOT_TO_FAIL.search(other):
        yield f"claims a deed in a double negative: {found[0]!r}"
    if (found := _TOGETHER.search(other)) and not _JOINED.search(case.accepted):
        yield f"adds somebody: {found[0]!r}"
    own = set(_parts(accepted))
    for part, is_statement in _parts(_SIGNED.sub("", answer.rstrip())):
        if (part, is_statement) in own or part in case.accepted:
            continue
        if is_statement:
            yield from _signs(part, case)
        elif _ADDED.match(part) and _is_beside(part, case):
            yield f"adds to a deed: {part!r}"


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """The clauses of a text, and its fragments; whether each is a clause."""
    for sentence in dict.fromkeys(sentences(text)):
        yield from ((part, True) for part in statements(sentence))
        yield from ((part, False) for part in fragments(sentence))


def _signs(part: str, case: _Case) -> Iterator[str]:
    is_open, is_denied = (one.search(part) is not None for one in (_OPEN, _DENIED))
    found = None if is_open else _ACTS.search(_AS.sub("", part))
    if found and not _is_known(next(filter(None, found.groups())), case):
        yield f"speaks of somebody else: {found[0]!r}"
    for found in _WITH.finditer(part):
        if any(is_named_only(case.known, word) for word in found[1].split()):
            yield f"adds to a deed: {found[0]!r}"
    if said := _said_of_somebody(part, case):
        yield f"says of somebody: {said!r}"
    if is_denied or _LOOKED.search(part):
        return
    if _TOO.search(part) and not _BOTH.search(case.accepted):
        yield f"adds a deed: {part!r}"
    if _is_beside(part, case, is_open=is_open) or (
        not is_open and (_is_mostly_other(part, case) or _is_of_another(part, case))
    ):
        yield f"claims something of which the case has no word: {part!r}"


def _is_known(actor: str, case: _Case) -> bool:
    return actor in case.accepted or stem(actor) in case.known.case


def _content(part: str) -> list[str]:
    return [one for one, _ in entries(part) if one not in GRAMMAR and one not in LINKING]


def _other(words: list[str], case: _Case) -> list[str]:
    return [one for one in words if one not in case.known.case and is_common(one)]


def _is_beside(part: str, case: _Case, *, is_open: bool = False) -> bool:
    """Whether a clause has no word of the case, but for its subject."""
    words = _content(part)
    other = _other(words, case)
    if not other:
        return False
    spots = case.things.found(part)
    named = {stem(word) for start, _, name in spots if not start for word in name.split()}
    codes = {stem(word) for word in _CODE.findall(part)}
    if not case.known.case.isdisjoint({*words} - named - codes):
        return False
    if all(one in FRAMING for one in other) and (
        is_open or _MINE.search(part) or not (spots or _OTHERS.search(part))
    ):
        return False
    return not case.has_value(part)


def _is_mostly_other(part: str, case: _Case) -> bool:
    """Whether most words of a clause are of no text of the case."""
    words = _content(part)
    other = _other(words, case)
    num_stated = len(case.known.stated.intersection(words))
    return len(other) > 1 and len(other) >= num_stated and not FRAMING.issuperset(other)


def _is_of_another(part: str, case: _Case) -> bool:
    """Whether a clause speaks of something that the accepted answer does not speak of."""
    if _OTHER.match(part) and not (
        _STAYS.search(part)
        or _MINE_TOO.search(part)
        or case.things.found(part)
        or case.has_value(part)
        or _REST.search(case.accepted)
    ):
        return True
    found = _SUBJECT.match(part)
    if not found or case.things.found(found[1]) or case.has_value(part):
        return False
    return bool(_content(found[1])) and case.known.stated.isdisjoint(
        one for one, _ in entries(part)
    )


def _said_of_somebody(part: str, case: _Case) -> str:
    """What a clause says of somebody of which the accepted answer has no word: a deed by its verb,
    a state and what is denied by all its words; empty: none."""
    text = part
    for start, end, name in case.things.found(part):
        if re.fullmatch(_AND, part[:start]) and not _DIGIT.search(name):
            text = f"{part[:start]}*{part[end:]}"
            break
    found = _SOMEBODY.match(text)
    if not found:
        return ""
    if _IS_SO.search(text):
        words = [one for one, _ in entries(found[1]) if one not in GRAMMAR]
        is_known = not words or not case.known.stated.isdisjoint(words) or case.has_value(part)
        return "" if is_known else part
    deed = None if _OPEN.search(part) else _DEED.match(found[1])
    one, verb = next(iter(entries(deed[1])), ("", "")) if deed else ("", "")
    is_known = one in case.known.stated or one in GRAMMAR
    if deed and one in LINKING:  # it relates things of the case, if it has them
        beside = [one for one, _ in entries(deed[1])]
        is_known = bool(_KEEPS.match(deed[1]) or case.things.found(deed[1])) or not (
            case.known.stated.isdisjoint(beside) and not case.has_value(part)
        )
    return "" if is_known or not (is_common(one) or one in case.known.case) else verb
