"""People, addresses and companies of a country, from pools of Faker's entries.

A pool depends on the locale and on Faker's version alone and is made once per process. A world
draws its entries with its own random numbers.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from random import Random

import msgspec

from rehearsal_room.scenarios.generate.vocabulary.towns import towns_of

_SIZE = 400  # entries drawn for a pool
# The country codes of phone numbers.
# fmt: off
_PREFIXES = {
    "AT": 43, "AU": 61, "CA": 1, "DE": 49, "DK": 45, "ES": 34, "FI": 358, "FR": 33, "GB": 44,
    "IE": 353, "IT": 39, "NL": 31, "US": 1,
}
# fmt: on
# How surnames differ in spelling: a sound within the name -> another spelling of it.
_SOUNDS = (
    *((r"(?<=[a-z])ck", "k"), (r"(?<=[a-z])ph", "f"), (r"(?<=[a-z])th", "t"), (r"son$", "sen")),
    *((r"sen$", "son"), (r"(?<=[a-z])ei", "ai"), (r"(?<=[a-z])ie", "y"), (r"(?<=[a-z])y", "i")),
    *((r"(?<=[^aeiouy])i(?=[^aeiouy])", "y"), (r"([flmnprst])\1", r"\1")),
    *((r"(?<=[aeiouy])([lmnt])(?=[aeiouy])", r"\1\1"), (r"(?<=[aeiouy])([lt])$", r"\1\1")),
)
_HOSTS = ("mailbay.example", "quickmail.example", "northpost.example", "pinemail.example")


class Person(msgspec.Struct, frozen=True):
    """A person with name, address and contact details."""

    first: str
    last: str
    email: str
    phone: str
    street: str
    city: str
    postcode: str
    is_woman: bool = False

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first} {self.last}"

    @property
    def login(self) -> str:
        """Example: "ana.lopez" """
        return _login(self.first, self.last)


class PersonName(str):
    """A full name in the values of a template, which gives the words for a second mention, too.

    Example: "Ask {clerk}; {clerk.he} knows." -> "Ask Ana Lopez; she knows."
    """

    __slots__ = ("first", "is_woman")

    def __new__(cls, person: Person) -> "PersonName":
        """The name of a person."""
        made = super().__new__(cls, person.name)
        made.first, made.is_woman = person.first, person.is_woman
        return made

    first: str
    is_woman: bool

    @property
    def he(self) -> str:
        """he or she."""
        return "she" if self.is_woman else "he"

    @property
    def him(self) -> str:
        """him or her."""
        return "her" if self.is_woman else "him"

    @property
    def his(self) -> str:
        """his or her."""
        return "her" if self.is_woman else "his"

    @property
    def hers(self) -> str:
        """his or hers, as in "a friend of hers"."""
        return "hers" if self.is_woman else "his"

    @property
    def He(self) -> str:
        """He or She."""
        return self.he.capitalize()

    @property
    def His(self) -> str:
        """His or Her."""
        return self.his.capitalize()


class Pools(msgspec.Struct, frozen=True):
    """The parts of which the people and companies of one locale are made."""

    firsts: tuple[str, ...]
    women: frozenset[str]  # those of `firsts` that are women's names
    lasts: tuple[str, ...]
    streets: tuple[str, ...]
    cities: tuple[str, ...]
    companies: tuple[str, ...]


_STREETS_OF_MANY_KINDS = ("en_AU", "en_CA", "en_GB", "en_US")
_KINDS_OF_STREETS = ("Street", "Road", "Avenue", "Lane", "Drive", "Way", "Place", "Court")


@cache
def pools_of(locale: str) -> Pools:
    """The pools of a locale such as "en_GB"; they are equal in every process."""
    from faker import Faker  # imported late: 70 ms that only the making of worlds needs

    faker = Faker(locale)
    faker.seed_instance(f"rehearsal {locale}")

    def draw(make: str) -> tuple[str, ...]:
        found = (" ".join(str(getattr(faker, make)()).split()) for _ in range(_SIZE))
        return tuple(dict.fromkeys(found))

    firsts = _plain(draw("first_name"))
    female = {str(name) for one in faker.get_providers() for name in _womens_names(one)}
    return Pools(
        firsts=firsts,
        women=frozenset(firsts) & female,
        lasts=_plain(draw("last_name")),
        streets=_streets(locale, _plain(draw("street_name"))),
        cities=towns_of(locale),
        companies=_plain(draw("company")),
    )


def _streets(locale: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of streets as people know them. Faker's English ones have two hundred endings
    ("Jeffrey Ville", "Kelly Loaf"), most of which nobody takes for a street."""
    if locale not in _STREETS_OF_MANY_KINDS:
        return names
    seen = Counter[str]()
    streets = []
    for name in names:
        first = name.rpartition(" ")[0]
        kind = len(first) + seen[first]
        seen[first] += 1
        streets.append(f"{first} {_KINDS_OF_STREETS[kind % len(_KINDS_OF_STREETS)]}")
    return tuple(streets)


def _womens_names(provider: object) -> Iterable[object]:
    """The names that one of Faker's providers gives to women only; empty where it names nobody."""
    women, men = (getattr(provider, f"first_names_{one}", ()) for one in ("female", "male"))
    return set(women) - set(men)


def _plain(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names without characters that would break a search or a template."""
    plain = tuple(name for name in names if "{" not in name and "'" not in name)
    return plain or names


def ascii_of(text: str) -> str:
    """Letters and digits in lower-case ASCII, for logins and e-mail addresses.

    Example: ascii_of("Müller-Lüdenscheidt") -> "mullerludenscheidt"
    """
    folded = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("ø", "o"))
    return "".join(char for char in folded.casefold() if char.isascii() and char.isalnum()) or "x"


class People:
    """Draws the people of a world, each only once."""

    def __init__(self, locale: str, rng: Random) -> None:
        self._pools = pools_of(locale)
        self._prefix = _PREFIXES[locale[-2:]]
        self._rng = rng
        self._logins: set[str] = set()  # of all people: no two names are equal in ASCII
        self._emails: set[str] = set()
        self._by_name: dict[str, Person] = {}
        self._originals: dict[str, Person] = {}  # by the name of the person who resembles them

    def person(self) -> Person:
        """A new person."""
        rng, pools = self._rng, self._pools
        while True:
            first, last = rng.choice(pools.firsts), rng.choice(pools.lasts)
            if _login(first, last) not in self._logins:
                return self._new_person(first, last)

    def like(self, person: Person) -> Person:
        """A new person whose name is easily mistaken for this person's."""
        original = self._originals.get(person.name, person)
        for first, last in self._similar_names(original):
            if _login(first, last) not in self._logins:
                lookalike = self._new_person(first, last)
                self._originals[lookalike.name] = original
                return lookalike
        return self.person()

    def renamed(self, person: Person, first: str, last: str, email: str) -> Person:
        """A person under another name, as a member of a family needs it."""
        is_woman = first in self._pools.women
        renamed = msgspec.structs.replace(
            person, first=first, last=last, email=email, is_woman=is_woman
        )
        self._by_name[renamed.name] = renamed
        return renamed

    def named(self, name: str) -> PersonName | None:
        """The name of a person who was drawn; None: nobody is called so."""
        person = self._by_name.get(name)
        return None if person is None else PersonName(person)

    def first(self) -> str:
        """A first name."""
        return self._rng.choice(self._pools.firsts)

    def last(self) -> str:
        """A last name."""
        return self._rng.choice(self._pools.lasts)

    def company(self) -> str:
        """The name of a company."""
        return self._rng.choice(self._pools.companies)

    def city(self) -> str:
        """The name of a town."""
        return self._rng.choice(self._pools.cities)

    def street(self) -> str:
        """A house number and a street."""
        return f"{self._rng.randrange(1, 200)} {self._rng.choice(self._pools.streets)}"

    def _similar_names(self, person: Person) -> list[tuple[str, str]]:
        rng, pools = self._rng, self._pools
        spelt = respellings(person.last)
        spelt = rng.sample(spelt, k=min(3, len(spelt)))
        others = [(rng.choice(pools.firsts), person.last), (person.first, rng.choice(pools.lasts))]
        names = [(person.first, last) for last in spelt] + others
        rng.shuffle(names)
        return names

    def _new_person(self, first: str, last: str) -> Person:
        rng = self._rng
        self._logins.add(_login(first, last))
        person = Person(
            first=first,
            last=last,
            email=self._email(first, last),
            phone=f"+{self._prefix} 555 {rng.randrange(10_000):04d} {rng.randrange(1_000):03d}",
            street=self.street(),
            city=self.city(),
            postcode=f"{rng.randrange(10_000, 99_999)}",
            is_woman=first in self._pools.women,
        )
        self._by_name[person.name] = person
        return person

    def _email(self, first: str, last: str) -> str:
        rng = self._rng
        one, two = ascii_of(first), ascii_of(last)
        names = (f"{one}.{two}", f"{one[0]}.{two}", f"{two}.{one}")
        email = f"{rng.choice(names)}@{rng.choice(_HOSTS)}"
        while email in self._emails:
            email = f"{one}.{two}{rng.randrange(2, 1_000)}@{rng.choice(_HOSTS)}"
        self._emails.add(email)
        return email


def _login(first: str, last: str) -> str:
    return f"{ascii_of(first)}.{ascii_of(last)}"


def respellings(name: str) -> list[str]:
    """Other spellings of a surname: a sound spelt differently, a consonant doubled or made
    single. Empty where there is none.

    Example: "Griffin" -> ["Gryffin", "Griffyn", "Grifin"]
    """
    found = [
        name[: match.start()] + match.expand(other) + name[match.end() :]
        for one, other in _SOUNDS
        for match in re.finditer(one, name)
    ]
    return list(dict.fromkeys(found))
