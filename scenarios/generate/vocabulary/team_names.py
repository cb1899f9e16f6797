"""The names of teams, posts and stores as people say them: "the Airport team", "the North depot".

A name that ends in a common noun takes an article, and so do people: "the Hygienists have".
"Goods-in" and "Orthodontics" take none.
"""

import re
from collections.abc import Iterable, Mapping

_ENDS_IN_NOUN = re.compile(
    r"(?!Front of house).* (?:team|crew|desk|depot|store|storeroom|stockroom|hall|room|roof|vault"
    r"|shed|yard|house"
    r"|dock|cellar|counter|wing|floor|office|library|bar|station|garage|barn|kitchen|warehouse|lobby"
    r"|greenhouse|tent|branch|gate|shop|lab|fridge|rack|archive|group|bank|nursery|club|pool)"
    r"|Bindery|Cellar|Counter|Kitchen|Laboratory|Shop|Warehouse|Workshop"
)
_PEOPLE = re.compile(  # "I'm meeting the Hygienists"
    r"Caretakers|City riders|Dental assistants|Electricians|Field engineers|Guards|Hygienists"
    r"|Movers|Nurses|Paralegals|Teachers of \w+|Trainers|Van drivers|Volunteers"
)
_OF_SEVERAL = {"has": "have", "is": "are", "needs": "need", "was": "were"}
_BEGINS = re.compile(r"(?:^|[.!?]['\"”’)]*\s+|[“‘])$")


def speak_of_teams(text: str, values: Mapping[str, str], names: Iterable[str]) -> str:
    """A template with articles before the placeholders of these names where people say one.

    Example: "Give it to {team}." -> "Give it to the {team}." where the team is the "Night crew".
    """
    known = frozenset(names)
    for key, value in values.items():
        if value not in known:
            continue
        if _PEOPLE.fullmatch(value):
            verb = rf"(?<! in )(?<! from )(?<! of )(\{{{key}\}}) (has|is|needs|was)\b"
            text = re.sub(verb, lambda found: f"{found[1]} {_OF_SEVERAL[found[2]]}", text)
        if _ENDS_IN_NOUN.fullmatch(value) or _PEOPLE.fullmatch(value):
            text = re.sub(rf"(?<![“‘(])(\b[Tt]he )?\{{{key}\}}", _with_article, text)
    return text


def _with_article(found: re.Match[str]) -> str:
    before = found.string[: found.start()]
    if found[1] or re.search(r"\b(?:both|our|your|their) $", before):
        return found[0]
    return ("The " if _BEGINS.search(before) else "the ") + found[0]
