"""What agents do to records, as rows of verbs that mean the same."""

import re
from functools import lru_cache

# Each verb by how it begins.
_ROWS = (
    ("approv", "accept", "authori", "confirm", "agree"),
    ("reject", "declin", "deni", "refus", "turned down"),
    ("cancel", "void", "withdr", "revok"),
    ("refund", "credit", "return", "reimburs", "paid", "pay", "settl"),
    ("clos", "complet", "done", "solv", "finish"),
    ("hid", "flag"),
    ("disabl", "block", "lock", "deactivat"),
    ("mov", "assign", "hand", "switch", "chang", "updat", "redirect", "reschedul", "now"),
    ("issu", "creat", "register", "add", "book", "log", "record", "open", "note", "plan", "put"),
    ("escalat", "pass", "ask", "refer", "forward"),
    ("delet", "remov"),
    ("waiv", "reduc", "discount", "appl"),
    ("extend", "renew", "prolong", "defer", "postpon"),
    ("releas",),
    ("merg", "combin"),
    ("paus", "suspend"),
)
DECIDING = frozenset((0, 1, 2, 3, 4, 5, 6, 10, 15))  # rows that settle what becomes of a record
_BEGINNING = re.compile(r"\b(?:" + "|".join(f"({'|'.join(stems)})" for stems in _ROWS) + ")")
_DONE = re.compile(r"\b(?:\w+ed|paid|sent|hid|hidden|withdrawn|done|turned down)\b")
_KNOWN = 1024  # texts whose rows are remembered


@lru_cache(maxsize=_KNOWN)
def actions(text: str) -> frozenset[int]:
    """The rows of which a text has a verb."""
    return frozenset(found.lastindex - 1 for found in _BEGINNING.finditer(text) if found.lastindex)


@lru_cache(maxsize=_KNOWN)
def rows_of(verb: str) -> frozenset[int]:
    """The rows of one verb."""
    return frozenset(row for row, stems in enumerate(_ROWS) if verb.startswith(stems))


@lru_cache(maxsize=_KNOWN)
def verb_rows(text: str) -> frozenset[int]:
    """The rows of the verbs of a text that state something done."""
    return frozenset[int]().union(*map(rows_of, _DONE.findall(text)))
