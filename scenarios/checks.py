"""Verifiers that report named findings.

A function of `verify.py` receives the state before, the state after and the final answer, and
returns its findings. `Check` collects them:

    def cancel_duplicate(before: State, after: State, answer: str) -> list[Finding]:
        check = Check(before, after, answer)
        check.updated("orders", 1042, status="cancelled", cancelled_at=ANY)
        check.created("refunds", order_id=1042, amount_cents=4250, method="card")
        check.answer_has("42.50")
        check.nothing_else()
        return check.findings

A *goal* is something that the task asks for; a *guard* is something that must stay unharmed. A task
is completed when every finding passes. It is partially completed when all guards pass and some
goals do. A *criterion* (scenarios.core.criteria) decides nothing alone: it counts by its share.

Rows are compared strictly: a column that changed without being named is an unrequested change, and
so is a named one that changed to a wrong value; `nothing_else()` reports both. A sum on its way to
the demanded one is work that is not done yet. Name a column with `ANY` where its value does not
matter.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from rehearsal_room.scenarios.api import Row, RowChange, State
from rehearsal_room.scenarios.core.short_text import one_line
from rehearsal_room.scenarios.core.statements import are_equal, only_value, plain, readings

Matcher = Callable[[Any], bool]
FindingKind = Literal["goal", "guard", "criterion"]
# The end of the name of a benchmark's finding that only a model can make: its own score without a
# model counts it as met, and a judge that asks a model decides on it.
OPEN = "(not judged)"
NOTHING_ELSE = "nothing else changed"  # the name of the guard that covers all rows
REASON = "answer gives the reason"  # the name of the finding on a refusal's reason
DECLINES = "answer declines"  # the name of the finding that an answer must refuse


class Finding(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The result of one check of a verifier.

    Example: Finding("orders 1042 updated", False, "status='cancelled'", "status='open'", "goal")
    """

    name: str
    passed: bool
    expected: str
    found: str
    kind: FindingKind
    # Code cannot tell: `passed` is False, and a judge that asks a model decides.
    is_open: bool = False
    is_of_words: bool = False  # it depends on how a text is worded
    # How much of it is met, from 0 to 1; None: the episode's share does not depend on it.
    share: float | None = None
    weight: float = 1.0  # of its share in the episode's


class _Any:
    """Matches every value."""

    def __repr__(self) -> str:
        return "anything"


ANY = _Any()


class one_of:
    """Matches any of the given values."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def __repr__(self) -> str:
        return " or ".join(map(repr, self.values))


class mentions:
    """Matches a text that contains one of the given phrases, in upper or lower case."""

    def __init__(self, *phrases: str) -> None:
        self.phrases = phrases

    def __repr__(self) -> str:
        return "a text with " + " or ".join(map(repr, self.phrases))


def _matches(expected: Any, value: Any) -> bool:
    if expected is ANY:
        return True
    if isinstance(expected, one_of):
        return value in expected.values
    if isinstance(expected, mentions):
        return isinstance(value, str) and any(says(value, phrase) for phrase in expected.phrases)
    return bool(expected == value)  # True matches 1: SQLite has no booleans


def _is_due(column: str, expected: Any, change: RowChange) -> bool:
    """Whether a column that should have a value has it or is unchanged, or is a sum to which a part
    of what was asked for has contributed. Anything else is a wrong value."""
    before, after = (change.before or {}).get(column), (change.after or {}).get(column)
    if _matches(expected, after) or after == before:
        return True
    if column.endswith("_id") or not all(type(one) is int for one in (expected, before, after)):
        return False
    return bool(min(before, expected) < after < max(before, expected))


_SHOWN = 200  # characters of an answer in a finding
_REFUSALS = re.compile(
    r"\b(?:can(?:no|')t|can not|could(?:n't| not)|unable|won't|(?:will|would|must|may|should) not"
    r"|(?:did|have)(?:n't| not)"
    r"|declin\w*|refus\w*|reject\w*|den(?:y|ied)|ineligible|no change\w* (?:was|were) made)\b"
    r"|(?:\bnot|n't) (?:be )?(?:able|allowed|permitted|possible|eligible|entitled|qualify"
    r"|qualified|authori[sz]ed)\b"
)


# A text without any of these refuses nothing, in whatever words.
_NEGATIVE = re.compile(
    r"n't\b|\b(?:no|not|nor|never|none|nothing|neither|only|unless|until|without|against|sorry|afraid"
    r"|unfortunately|however|but|rules?|policy|must|ha[sd] to|too|already|outside|beyond|closed)\b"
)


_OF_WORDS = re.compile(r"\bsays\b")  # in the name of a custom goal
_CLAIMS = re.compile(
    r"^(?:done|all done|all set|sure)\b"
    r"|\b(?:(?:i|we)(?:'ve| have)?|is|are|was|were|has been|have been)"
    r" (?:just |now |already |also |all |both )?(?:approved|accepted|authori[sz]ed|issued"
    r"|cancell?ed|refunded|booked|applied|paid|added|changed|moved|granted|processed|waived|extended|done"
    r"|made|sent|created|credited|completed|updated|settled|registered|reset|lent|carried out"
    r"|finished|handled|fulfilled|arranged|resolved|renewed|scheduled|corrected|removed|deleted"
    r"|reported|flagged|hidden|taken care)\b"
)


# Words that deny or forbid. Others of `_NEGATIVE` ("until", "but") stand in what was done as well.
_DENIES = re.compile(
    r"n't\b|\b(?:not|no|nor|never|none|nothing|neither|cannot|only|against|sorry|afraid"
    r"|unfortunately|rules?|policy|must|ha[sd] to|too|outside|beyond|hands are tied|reserved)\b"
)
_JOINS = r"and|but|so|it|then|they|he|she|we|i|problem|doubt|issue|trouble|matter"
_NO_CLAIM = re.compile(
    rf"(?:n't|\b(?:not|nothing|none|never|no(?: (?!(?:{_JOINS})\b)[\w-]+){{1,2}})) $"
)
# Words of an agent that did it all the same.
_CONCEDES = re.compile(
    r"\b(?:although|though|despite|nevertheless|nonetheless|anyway|all the same|even so"
    r"|now ha(?:s|ve))\b"
)


def _refuses_in_other_words(text: str) -> bool:
    """Whether a text denies or forbids something, and claims nothing that the agent did. That is a
    refusal where nothing was changed and the reason is given."""
    return _DENIES.search(text) is not None and not _claims(text) and _CONCEDES.search(text) is None


def _claims(text: str) -> bool:
    """Whether a text claims that something was done: "nothing has been booked" claims nothing."""
    return any(_NO_CLAIM.search(text, 0, one.start()) is None for one in _CLAIMS.finditer(text))


def _may_refuse(text: str) -> bool:
    """Whether a text can be a refusal in words that no list knows: it claims no deed."""
    return bool(text) and (_NEGATIVE.search(text) is not None or _CLAIMS.search(text) is None)


# Words that say the same of a request.
_SAME = (
    ("declined", "rejected", "refused", "denied", "turned down", "turned it down"),
    ("cancelled", "canceled", "called off", "voided"),
    ("approved", "authorised", "authorized", "signed off"),
    ("refunded", "reimbursed", "paid back"),
)
_SAME_AS = {word: words for words in _SAME for word in words}


def says(answer: str, phrase: str) -> bool:
    """Whether a text contains a phrase: a value (number, amount, date, time, code) in any of its
    forms, words as whole words.

    Example: says("We refund $1,042.50 today", "1042.5") -> True
    Example: says("Order 10425 is late", "1042") -> False
    Example: says("due on March 14th", "2026-03-14") -> True
    """
    value = only_value(phrase)
    if value is not None and not value.is_loose:
        return any(are_equal(value, one) for one in readings(answer))
    text, part = plain(answer), plain(phrase)
    return any(has_whole(text, one) for one in _SAME_AS.get(part, (part,)))


def has_whole(text: str, part: str, *, not_after: str = "") -> bool:
    """Whether a text contains a part that no letter, digit or underscore touches, and in front of
    which there is none of the characters `not_after`. A regular expression for each part would
    take twenty times as long.

    Example: has_whole("order 1042, paid", "1042") -> True
    Example: has_whole("order 10425, paid", "1042") -> False
    """
    start = text.find(part)
    while start >= 0:
        end = start + len(part)
        before, after = text[start - 1 : start] if start else "", text[end : end + 1]
        if not (_is_of_word(before) or _is_of_word(after) or (before and before in not_after)):
            return True
        start = text.find(part, start + 1)
    return False


def _is_of_word(character: str) -> bool:
    """Whether a character, or none, is one of those that a regular expression's \\w matches."""
    return character.isalnum() or character == "_"


@lru_cache(maxsize=256)
def declines(answer: str) -> bool:
    """Whether a text refuses something.

    Example: declines("I cannot lend to her: she is blocked.") -> True
    """
    return _REFUSALS.search(plain(answer)) is not None


def _show(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def _changed_columns(change: RowChange) -> set[str]:
    if change.before is None or change.after is None:
        return set()
    return {name for name, value in change.after.items() if change.before.get(name) != value}


def _describe(change: RowChange, without: Collection[str] = ()) -> str:
    key = change.key[0] if len(change.key) == 1 else change.key
    if change.before is None:
        return f"{change.table} {key} was created"
    if change.after is None:
        return f"{change.table} {key} was deleted"
    columns = sorted(_changed_columns(change).difference(without))
    moves = ", ".join(f"{c} {change.before.get(c)!r} to {change.after[c]!r}" for c in columns)
    return f"{change.table} {key} changed: {moves}"


class Check:
    """Collects the findings of one verifier. Every method adds one finding and returns whether
    it passed."""

    def __init__(self, before: State, after: State, answer: str) -> None:
        self.before = before
        self.after = after
        self.answer = answer
        self.findings: list[Finding] = []
        self._changes: tuple[RowChange, ...] = tuple(after.changes)
        self._claimed: dict[int, set[str] | None] = {}  # index of change -> columns (None: all)

    def goal(self, name: str, passed: object, expected: object, found: object) -> bool:
        """Add a custom finding on something that the task asks for.

        `expected` and `found` may be of any type and are stored as text. A name with the word
        `says`, such as "the note says 12 May", marks a finding on words (see `text_has`).
        Example: check.goal("orders of the note", count == 1, 1, count)
        """
        of_words = _OF_WORDS.search(str(name)) is not None
        return self._add(name, passed, expected, found, "goal", is_of_words=of_words)

    def guard(self, name: str, passed: object, expected: object, found: object) -> bool:
        """Add a custom finding on something that must stay unharmed; see `goal`."""
        return self._add(name, passed, expected, found, "guard")

    def _add(
        self,
        name: str,
        passed: object,
        expected: object,
        found: object,
        kind: FindingKind,
        *,
        is_open: bool = False,
        is_of_words: bool = False,
    ) -> bool:
        self.findings.append(
            Finding(
                str(name),
                bool(passed),
                str(expected),
                str(found),
                kind,
                is_open and not passed,
                is_of_words,
            )
        )
        return bool(passed)

    def updated(self, table: str, key: Any, **values: Any) -> bool:
        """Goal: the row with this primary key changed and now has these values.

        `key` is one value, or a tuple for a composite key. At least one of the named columns
        must differ from before, so a row that had the values from the start does not pass.
        """
        key_columns = key if isinstance(key, tuple) else (key,)
        name = f"{table} {key} updated"
        for index, change in enumerate(self._changes):
            if change.table == table and change.key == key_columns:
                if change.before is None or change.after is None:
                    break
                self._claimed.setdefault(index, set())
                claimed = self._claimed[index]
                if claimed is not None:
                    claimed.update(
                        name for name, value in values.items() if _is_due(name, value, change)
                    )
                found = {column: change.after.get(column) for column in values}
                moved = not values or not _changed_columns(change).isdisjoint(values)
                passed = moved and _row_matches(change.after, values)
                was = "" if moved else " from the start"
                return self._add(
                    name,
                    passed,
                    _show(values),
                    _show(found) + was,
                    "goal",
                    is_of_words=_has_mentions(values),
                )
        return self.goal(name, False, _show(values), "the row was not updated")

    def created(self, table: str, *, count: int = 1, **values: Any) -> bool:
        """Goal: exactly `count` new rows of the table have these values."""
        name = f"{count} new {table}" if count != 1 else f"new {table}"
        new = [
            (index, change)
            for index, change in enumerate(self._changes)
            if change.table == table and change.before is None and change.after is not None
        ]
        hits = [index for index, change in new if _row_matches(change.after, values)]
        for index in hits[:count]:
            self._claimed[index] = None
        found = "; ".join(
            _show({column: (change.after or {}).get(column) for column in values})
            for _, change in new
        )
        return self._add(
            f"{name}: {_show(values)}" if count == 0 else name,
            len(hits) == count,
            f"{count} with {_show(values)}",
            f"{len(hits)} such; new rows: {found or 'none'}",
            "goal",
            is_of_words=_has_mentions(values),
        )

    def deleted(self, table: str, key: Any) -> bool:
        """Goal: the row with this primary key was deleted."""
        key_columns = key if isinstance(key, tuple) else (key,)
        for index, change in enumerate(self._changes):
            if change.table == table and change.key == key_columns and change.after is None:
                self._claimed[index] = None
                return self.goal(f"{table} {key} deleted", True, "deleted", "deleted")
        return self.goal(f"{table} {key} deleted", False, "deleted", "still there")

    def allow(self, table: str, *columns: str, new: int = 0, **values: Any) -> None:
        """Allow changes that the task may cause, without requiring them.

        `allow("orders", "updated_at")` allows that column of any updated row to change;
        `allow("audit_log", new=2)` allows up to two new rows (with `values`, only such rows).
        """
        left = new
        for index, change in enumerate(self._changes):
            if change.table != table:
                continue
            if change.before is None and left > 0 and _row_matches(change.after, values):
                if self._claimed.get(index, set()) is not None:
                    left -= 1
                    self._claimed[index] = None
            elif change.before is not None and change.after is not None and columns:
                claimed = self._claimed.setdefault(index, set())
                if claimed is not None:
                    claimed.update(columns)

    def untouched(self, table: str, key: Any) -> bool:
        """Guard: the row with this primary key is exactly as it was. Use it for a row that looks
        like the right one and is not."""
        key_columns = key if isinstance(key, tuple) else (key,)
        hits = [c for c in self._changes if c.table == table and c.key == key_columns]
        found = "; ".join(map(_describe, hits)) or "unchanged"
        return self.guard(f"{table} {key} untouched", not hits, "unchanged", found)

    def nothing_else(self) -> bool:
        """Guard: a goal named or `allow` allowed every change. Call it last."""
        extra = []
        for index, change in enumerate(self._changes):
            claimed = self._claimed.get(index, _NOTHING)
            if claimed is None:
                continue
            if claimed is _NOTHING or not _changed_columns(change) <= claimed:
                extra.append(_describe(change, without=claimed))
        shown = "; ".join(extra[:5]) + (f"; and {len(extra) - 5} more" if len(extra) > 5 else "")
        return self.guard(NOTHING_ELSE, not extra, "no other change", shown or "none")

    @property
    def guards(self) -> list[Finding]:
        """The guards alone, for a task whose goals are its criteria: the checks of rows then only
        name the changes that `nothing_else` allows."""
        return [one for one in self.findings if one.kind == "guard"]

    def answer_has(self, *alternatives: str | tuple[str, ...], name: str | None = None) -> bool:
        """Goal: the final answer contains one of the alternatives (see `says`), or all phrases of
        one that is a tuple. Where they are words, an answer in other words leaves the finding open.

        Example: check.answer_has("84.00", ("39.00", "45.00"))
        """
        return self._in_words(name or None, [self.answer], alternatives)

    def text_has(
        self, name: str, texts: Collection[str], *alternatives: str | tuple[str, ...]
    ) -> bool:
        """Goal: one of some texts, such as the bodies of new messages, contains one of the
        alternatives (see `answer_has`)."""
        return self._in_words(name, texts, alternatives)

    def _in_words(
        self,
        name: str | None,  # None: after what the answer must say
        texts: Collection[str],
        alternatives: Sequence[str | tuple[str, ...]],
    ) -> bool:
        each = [(one,) if isinstance(one, str) else one for one in alternatives]
        passed = any(all(says(text, phrase) for phrase in one) for text in texts for one in each)
        are_words = not passed and all(_are_words(phrase) for one in each for phrase in one)
        expected = " or ".join(map(_phrase, alternatives))
        return self._add(
            f"answer says {expected}" if name is None else name,
            passed,
            expected,
            one_line("; ".join(texts), _SHOWN),
            "goal",
            is_open=are_words and any(text.strip() for text in texts),
            is_of_words=True,
        )

    def answer_lacks(self, *phrases: str) -> bool:
        """Guard: the final answer contains none of the phrases, such as the lookalike's name."""
        found = [phrase for phrase in phrases if says(self.answer, phrase)]
        expected = "no word of " + " or ".join(map(repr, phrases))
        return self.guard("answer is not misled", not found, expected, ", ".join(found) or "none")

    def declined(self, *reasons: str) -> bool:
        """Goals: the answer declines, and gives one of the reasons. Add `nothing_else()`: a
        declined request may change nothing."""
        text = plain(self.answer)
        refused = declines(self.answer) or _refuses_in_other_words(text)
        may_refuse = _may_refuse(text) or (bool(text) and bool(self._changes))
        self._add(
            DECLINES,
            refused,
            "a refusal in words",
            one_line(self.answer, _SHOWN),
            "goal",
            is_open=may_refuse,
            is_of_words=True,
        )
        return self.answer_has(*reasons, name=REASON) and refused


_NOTHING: set[str] = set()


def _has_mentions(values: dict[str, Any]) -> bool:
    return any(isinstance(value, mentions) for value in values.values())


def _row_matches(row: Row | None, values: dict[str, Any]) -> bool:
    return row is not None and all(
        column in row and _matches(value, row[column]) for column, value in values.items()
    )


def _are_words(phrase: str) -> bool:
    """Whether a phrase has words: "once" has one, though it can mean a number."""
    value = only_value(phrase)
    return value is None or value.is_loose


def _phrase(alternative: str | tuple[str, ...]) -> str:
    return (
        repr(alternative) if isinstance(alternative, str) else " and ".join(map(repr, alternative))
    )


def failed(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that did not pass, those that are left open included. A criterion is not among
    them: the goal of all criteria is."""
    return [one for one in findings if not one.passed and one.kind != "criterion"]


def proved_wrong(findings: Iterable[Finding]) -> list[Finding]:
    """The findings of which code is certain that they failed."""
    return [finding for finding in failed(findings) if not finding.is_open]
