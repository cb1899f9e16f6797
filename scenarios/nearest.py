"""Suggestions for unknown names: the known names that are nearest to one that was not found."""

from collections.abc import Iterable
from difflib import get_close_matches

MIN_LENGTH = 3  # characters; the neighbours of a shorter name are chance hits
MAX_SUGGESTIONS = 3


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names that are most like `name`, the best first, at most MAX_SUGGESTIONS.

    Names that contain `name` come first, then names that are spelt alike.

    Example: nearest("shop", ["claims_desk", "shop_support"]) -> ["shop_support"]
    """
    if len(name) < MIN_LENGTH:
        return []
    names = list(dict.fromkeys(known))
    containing = sorted((one for one in names if name.lower() in one.lower()), key=len)
    alike = get_close_matches(name, names, n=MAX_SUGGESTIONS)
    return list(dict.fromkeys([*containing, *alike]))[:MAX_SUGGESTIONS]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message that suggests names; empty when no name is near.

    Example: did_you_mean("shop", ["claims_desk", "shop_support"])
      -> "; did you mean 'shop_support'?"
    """
    *others, last = [repr(one) for one in nearest(name, known)] or [""]
    if not last:
        return ""
    return f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
