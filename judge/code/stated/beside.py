"""Clauses that are beside the case: whoever reads them learns something of which it has no word.

"It left the warehouse an hour ago" has only words that are understood, and so has "he may keep
them"; no text of the case speaks of either. Lies in plain words are of few kinds:

- a clause without a word of the case, of which somebody could say whether it is so. Courtesies,
  offers and what the agent says of its own looking are none, and neither is what only relates the
  things of the case ("that one remains with Anna Soll") or denies something;
- a deed of somebody of whom the case does not speak: "a colleague refunded it";
- something added to a deed: "for a surcharge", "as store credit", "without brakes", "I sold it too";
- a deed in a double negative: "I did not hesitate to cancel it".
"""

import re
from collections.abc import Iterator

from rehearsal_room.judge.code.sentences import Things, sentences, statements
from rehearsal_room.judge.code.stated.understood import Vocabulary, entries, is_common, is_named_only, stem
from rehearsal_room.judge.code.stated.understood import FRAMING, GRAMMAR, LINKING
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
_ACTS = re.compile(
    r"^(?:(?:and|but|so|while|because|since|although) )?"
    r"(?:(?:an?|the|my|our|your|his|her|their|another|some|one of (?:my|our|the)) )?"
    r"(?:(?!\w+ing )\w+ )?"
    rf"(?!\w+s (?:have|are|get)\b)({_ACTORS})s?(?: (?!(?:{_MAY})\b)[\w'-]+){{0,5}}? {_DID}"
    r"|^(?:(?:and|but|so) )?(nobody)(?: else)? (?:has|have|had|did|was|were|\w+ed|told)\b"
    rf"|\b(?:by|to|with) (?:(?:an?|the|my|our|another|some) )?(?:\w+ )?({_ACTORS})\b"
)
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
_DIGIT = re.compile(r"\d")
_OTHERS = re.compile(r"\b(?:s?he|they|him|her|them|who|which|it)\b")
_LOOKED = re.compile(
    r"^(?:i|we)(?:'ve| have)? (?:\w+[- ])?(?:checked|looked|reviewed|read|searched|examined|compared)\b"
)
_SIGNED = re.compile(r"(?i:(?:regards|wishes|sincerely|faithfully|cheers|thanks)),?\s*\n.{0,40}\s*$")
_AND = r"^(?:(?:and|but|so|because|since|as|while|which|although) )?"
_SUBJECT = re.compile(
    rf"{_AND}((?:(?!(?:i|we|you|it|s?he|they|that|this|there|who|which|what|both|these|those|all|one"
    r"|each|nothing)\b)[\w'-]+ ){1,5}?)"
    r"(?:is|are|was|were|has|have|had|will|went|goes|comes|came|looks|shows)\b"
)
_OTHER = re.compile(
    rf"{_AND}(?:(?:the|his|her|their|your|my|our) )?(?:another|other|second|third|further|additional)\b"
)
_REST = re.compile(r"\b(?:another|others?|second|third|rest|remaining)\b")
_STAYS = re.compile(
    r"\b(?:stays?|remains?|unchanged|untouched|unaffected|as (?:it|they)|still|keeps?|kept|left)\b"
)
# What somebody did; "*" is a name.
_DEED = re.compile(
    r"^(?:(?:s?he|who|\*)(?:'ll)?|they(?:'ve)?(?!'ll| will))"
    r"(?: (?:has|have|had|will|did|now|just|already|also|since|then|still|\w+ly))* (?!be|(?:is|are|was|were)\b)(.+)"
)
_CODE = re.compile(r"[a-z]+(?=-?\d)")


def beside_the_case(
    accepted: str, answer: str, known: Vocabulary, things: Things
) -> Iterator[str]:
    """What an answer claims beside the case, as phrases."""
    if not known.words:
        return
    one, other = plain(accepted), plain(answer)
    if found := _NOT_TO_FAIL.search(other):
        yield f"claims a deed in a double negative: {found[0]!r}"
    if (found := _TOGETHER.search(other)) and not _JOINED.search(one):
        yield f"adds somebody: {found[0]!r}"
    due = [value for value in readings(accepted) if not value.is_loose]
    text = _SIGNED.sub("", answer)
    for part in dict.fromkeys(part for each in sentences(text) for part in statements(each)):
        if part in one:
            continue
        is_open = _OPEN.search(part) is not None
        found = None if is_open else _ACTS.search(part)
        if found and not _is_known(next(filter(None, found.groups())), one, known):
            yield f"speaks of somebody else: {found[0]!r}"
        for found in _WITH.finditer(part):
            if any(is_named_only(known, word) for word in found[1].split()):
                yield f"adds to a deed: {found[0]!r}"
        is_denied = _DENIED.search(part) is not None
        if _TOO.search(part) and not is_denied and not _BOTH.search(one):
            yield f"adds a deed: {part!r}"
        if is_denied:
            continue
        if not is_open and (verb := _deed_of(part, known, things)):
            yield f"says what somebody did: {verb!r}"
        is_beside = _is_beside(part, known, things, due, is_open=is_open)
        if is_beside or (not is_open and _is_of_another(one, part, known, things, due)):
            yield f"claims something of which the case has no word: {part!r}"


def _is_known(actor: str, accepted: str, known: Vocabulary) -> bool:
    return actor in accepted or stem(actor) in known.case


def _is_beside(
    part: str, known: Vocabulary, things: Things, due: list[Reading], *, is_open: bool
) -> bool:
    every = [one for one, _ in entries(part) if one not in GRAMMAR and one not in LINKING]
    other = [one for one in every if one not in known.case and is_common(one)]
    if not other:
        return False
    spots = things.found(part)
    named = {stem(word) for start, _, name in spots if not start for word in name.split()}
    codes = {stem(word) for word in _CODE.findall(part)}
    own = {one for one in every if one in known.case and one not in named and one not in codes}
    if not is_open and len(other) > 1 and len(other) >= len(own & known.stated):
        return not all(one in FRAMING for one in other)
    if own:
        return False
    if _LOOKED.search(part):
        return False
    if all(one in FRAMING for one in other) and (
        is_open or _MINE.search(part) or not (spots or _OTHERS.search(part))
    ):
        return False
    return not _has_any(part, due)


def _has_any(part: str, due: list[Reading]) -> bool:
    return any(are_alike(one, two) for one in readings(part) if not one.is_loose for two in due)


def _is_of_another(
    accepted: str, part: str, known: Vocabulary, things: Things, due: list[Reading]
) -> bool:
    """Whether a clause speaks of something that the accepted answer does not speak of."""
    if _OTHER.match(part) and not (
        _STAYS.search(part) or things.found(part) or _has_any(part, due) or _REST.search(accepted)
    ):
        return True
    found = _SUBJECT.match(part)
    if not found or things.found(found[1]) or _has_any(part, due):
        return False
    words = {one for one, _ in entries(found[1])} - GRAMMAR - LINKING
    return bool(words) and known.stated.isdisjoint(one for one, _ in entries(part))


def _deed_of(part: str, known: Vocabulary, things: Things) -> str:
    """The verb of what somebody else did, of which the accepted answer has no word; empty: none."""
    for start, end, name in things.found(part):
        if re.fullmatch(_AND, part[:start]) and not _DIGIT.search(name):
            part = f"*{part[end:]}"
            break
    found = _DEED.match(part)
    if not found:
        return ""
    one, verb = next(entries(found[1]), ("", ""))
    is_known = one in known.stated or one in GRAMMAR or one in LINKING
    return "" if is_known or not (is_common(one) or one in known.case) else verb
