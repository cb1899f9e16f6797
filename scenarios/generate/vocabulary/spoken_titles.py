"""How people speak of tickets, threads, cases and appointments.

A record has a title, and a colleague says what it is about: not the ticket "Wrong name on the
bill", but the ticket about the wrong name on the bill. The phrases stand in spoken_titles.toml.
"""

from functools import cache
from pathlib import Path

import msgspec

from rehearsal_room.scenarios.files import convert, parse_toml, read_text

_FILE = Path(__file__).with_suffix(".toml")


class _Phrases(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    about: dict[str, str]  # the title of a ticket, a thread or a case -> what follows "about"
    appointments: dict[str, str]  # the title of an appointment -> what people call it


class SpokenTitle(str):
    """A value of a template that may be a title, with what people say instead of it.

    Example: "Close the ticket about {subject.about}." -> "Close the ticket about the noise."
    A title without a phrase stands in quotation marks.
    """

    __slots__ = ()

    @property
    def about(self) -> str:
        """What the ticket, the thread or the case is about."""
        return _phrases().about.get(self, f"“{self}”")

    @property
    def meeting(self) -> str:
        """What the appointment is called, after "the"."""
        return _phrases().appointments.get(self, f"appointment “{self}”")


def appointment_names() -> dict[str, str]:
    """What people call appointments, by their titles."""
    return _phrases().appointments


@cache
def _phrases() -> _Phrases:
    return convert(_FILE, parse_toml(_FILE, read_text(_FILE)), _Phrases)
