"""Second mentions: a text that has named somebody calls them by their first name from then on."""

from collections.abc import Iterable

from rehearsal_room.scenarios.generate.vocabulary.people import PersonName


def shorten_names(text: str, values: Iterable[str]) -> str:
    """A text in which every mention of a person after the first is the first name alone.
    The people are the values that are PersonNames.

    Example: "Ask Ana Lopez. Ana Lopez knows." -> "Ask Ana Lopez. Ana knows." Names stay whole
    where another person of the text has the same first name.
    """
    named = {str(one): one for one in values if isinstance(one, PersonName) and one in text}
    firsts = [one.first for one in named.values()]
    for name, person in named.items():
        if firsts.count(person.first) == 1:
            before, found, after = text.partition(name)
            text = before + found + after.replace(name, person.first)
    return text
