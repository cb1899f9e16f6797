"""Helpers for the make.py of several modules: unused codes, drafts that need a role or a limit."""

from collections.abc import Sequence
from typing import Literal

from scenarios.format import Call
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, call

_RANKS = ("clerk", "supervisor", "manager")
_LEAST = {"supervisor": "a supervisor or a manager", "manager": "a manager"}


def new_code(maker: Maker, table: str, column: str, letters: str, digits: int = 6) -> str:
    """Return a reference that no row of the table has yet.

    Example: new_code(maker, "tickets", "reference", "TK") -> "TK-407131"
    """
    code = maker.code(letters, digits)
    while maker.rows(table, **{column: code}):
        code = maker.code(letters, digits)
    return code


def is_ranked(maker: Maker, role: Literal["supervisor", "manager"]) -> bool:
    """Whether the acting employee has this role or a higher one."""
    return _RANKS.index(maker.me["role"]) >= _RANKS.index(role)


def requiring_role(
    maker: Maker, role: Literal["supervisor", "manager"], draft: Draft, *reasons: str
) -> Draft:
    """Return the draft, whose last call requires this role.

    If the acting employee has a lower role, return the same task as one to decline for lack of
    permission. `reasons`: further phrases that give the reason.
    """
    if is_ranked(maker, role):
        return draft
    return Draft(
        kind="decline",
        because="permission",
        ask=draft.ask,
        calls=(call("get_my_profile"), *draft.calls[:-1]),
        answer=f"I decline: my role does not allow it, it takes {_LEAST[role]}.",
        values=draft.values,
        reasons=("supervisor", "manager", "role", "permission", "allowed", *reasons),
        trap="Nothing but the role speaks against it.",
    )


def within_limit(maker: Maker, cents: int, draft: Draft, what: str) -> Draft:
    """Return the draft, whose last call is about this amount.

    If the amount is above the acting employee's limit, return the same task as one to decline.
    `what` is above the limit, in the words of the answer.
    """
    if cents <= maker.me["limit_cents"]:
        return draft
    return Draft(
        kind="decline",
        because="permission",
        ask=draft.ask,
        calls=(*draft.calls[:-1], call("get_my_profile")),
        answer=f"I decline: {what} lies above my limit.",
        values=draft.values,
        reasons=("limit", "above", "too high", "exceeds", "permission"),
    )


def with_lookups(calls: Sequence[Call], *lookups: Call) -> tuple[Call, ...]:
    """Return the calls, followed by the look-ups that are not among them.

    Example: with_lookups((get_customer,), get_customer, list_teams) -> (get_customer, list_teams)
    """
    return (*calls, *(lookup for lookup in lookups if lookup not in calls))


def time_of(moment: str) -> str:
    """Return the time of day of a moment.

    Example: time_of("2026-03-14T09:30:00Z") -> "09:30"
    """
    return moment[11:16]
