"""People, addresses and companies of a country, from Faker's lists, in pools that are made once.

The pools depend on the locale and on Faker's version alone; which of their entries a world has is
drawn from the world's own source of chance.
"""

import re
import unicodedata
from functools import cache
from random import Random

import msgspec

_SIZE = 400  # entries of a pool
# What phone numbers of a country begin with.
# fmt: off
_PREFIXES = {
    "AT": 43, "AU": 61, "CA": 1, "DE": 49, "DK": 45, "ES": 34, "FI": 358, "FR": 33, "GB": 44,
    "IE": 353, "IT": 39, "NL": 31, "US": 1,
}
# fmt: on
# How surnames differ in spelling: a sound within the name -> as others write it.
_SOUNDS = (
    *((r"(?<=[a-z])ck", "k"), (r"(?<=[a-z])ph", "f"), (r"(?<=[a-z])th", "t"), (r"son$", "sen")),
    *((r"sen$", "son"), (r"(?<=[a-z])ei", "ai"), (r"(?<=[a-z])ie", "y"), (r"(?<=[a-z])y", "i")),
    *((r"(?<=[^aeiouy])i(?=[^aeiouy])", "y"), (r"([flmnprst])\1", r"\1")),
    *((r"(?<=[aeiouy])([lmnt])(?=[aeiouy])", r"\1\1"), (r"(?<=[aeiouy])([lt])$", r"\1\1")),
)
_HOSTS = ("mailbay.example", "quickmail.example", "northpost.example", "pinemail.example")


class Person(msgspec.Struct, frozen=True):
    """Somebody with what it takes to reach them."""

    first: str
    last: str
    email: str
    phone: str
    street: str
    city: str
    postcode: str

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first} {self.last}"

    @property
    def login(self) -> str:
        """Example: "ana.lopez" """
        return _login(self.first, self.last)


class Pools(msgspec.Struct, frozen=True):
    """What people and companies of one locale are put together from."""

    firsts: tuple[str, ...]
    lasts: tuple[str, ...]
    streets: tuple[str, ...]
    cities: tuple[str, ...]
    companies: tuple[str, ...]


@cache
def pools_of(locale: str) -> Pools:
    """The pools of a locale such as "en_GB"; the same in every process."""
    from faker import Faker  # 70 ms that only those shall wait for who make worlds

    faker = Faker(locale)
    faker.seed_instance(f"rehearsal {locale}")
    for provider in faker.get_providers():
        cities = getattr(provider, "cities", None)
        if isinstance(cities, list):  # it_IT's are the items of a set: their order is the hashes'
            setattr(provider, "cities", sorted(cities))  # noqa: B010 - no attribute to mypy

    def drawn(make: str) -> tuple[str, ...]:
        found = (" ".join(str(getattr(faker, make)()).split()) for _ in range(_SIZE))
        return tuple(dict.fromkeys(found))

    return Pools(
        firsts=_plain(drawn("first_name")),
        lasts=_plain(drawn("last_name")),
        streets=_plain(drawn("street_name")),
        cities=_plain(drawn("city")),
        companies=_plain(drawn("company")),
    )


def _plain(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names without marks that a search would stumble over."""
    plain = tuple(name for name in names if "{" not in name and "'" not in name)
    return plain or names


def ascii_of(text: str) -> str:
    """Letters and digits in lower-case ASCII, for logins and addresses.

    Example: ascii_of("Müller-Lüdenscheidt") -> "mullerludenscheidt"
    """
    folded = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("ø", "o"))
    return "".join(char for char in folded.casefold() if char.isascii() and char.isalnum()) or "x"


class People:
    """Draws people, none twice in a world."""

    def __init__(self, locale: str, rng: Random) -> None:
        self._pools = pools_of(locale)
        self._prefix = _PREFIXES[locale[-2:]]
        self._rng = rng
        self._logins: set[str] = set()  # of everybody: no two names are alike in ASCII
        self._emails: set[str] = set()
        self._originals: dict[str, Person] = {}  # by the name of who resembles them

    def person(self) -> Person:
        """Somebody new."""
        rng, pools = self._rng, self._pools
        while True:
            first, last = rng.choice(pools.firsts), rng.choice(pools.lasts)
            if _login(first, last) not in self._logins:
                return self._made(first, last)

    def like(self, person: Person) -> Person:
        """Somebody else with a name that is easily mistaken for theirs."""
        original = self._originals.get(person.name, person)
        for first, last in self._near(original):
            if _login(first, last) not in self._logins:
                made = self._made(first, last)
                self._originals[made.name] = original
                return made
        return self.person()

    def first(self) -> str:
        """A first name."""
        return self._rng.choice(self._pools.firsts)

    def last(self) -> str:
        """A last name."""
        return self._rng.choice(self._pools.lasts)

    def company(self) -> str:
        """The name of a firm."""
        return self._rng.choice(self._pools.companies)

    def city(self) -> str:
        """The name of a town."""
        return self._rng.choice(self._pools.cities)

    def street(self) -> str:
        """A street with a house's number."""
        return f"{self._rng.randrange(1, 200)} {self._rng.choice(self._pools.streets)}"

    def _near(self, person: Person) -> list[tuple[str, str]]:
        rng, pools = self._rng, self._pools
        spelt = respellings(person.last)
        spelt = rng.sample(spelt, k=min(3, len(spelt)))
        others = [(rng.choice(pools.firsts), person.last), (person.first, rng.choice(pools.lasts))]
        near = [(person.first, last) for last in spelt] + others
        rng.shuffle(near)
        return near

    def _made(self, first: str, last: str) -> Person:
        rng = self._rng
        self._logins.add(_login(first, last))
        return Person(
            first=first,
            last=last,
            email=self._email(first, last),
            phone=f"+{self._prefix} 555 {rng.randrange(10_000):04d} {rng.randrange(1_000):03d}",
            street=self.street(),
            city=self.city(),
            postcode=f"{rng.randrange(10_000, 99_999)}",
        )

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
    """A surname as other families spell it: a sound written otherwise, a consonant doubled or
    made single. Empty where there is no such way.

    Example: "Griffin" -> ["Gryffin", "Griffyn", "Grifin"]
    """
    found = [
        name[: at.start()] + at.expand(other) + name[at.end() :]
        for one, other in _SOUNDS
        for at in re.finditer(one, name)
    ]
    return list(dict.fromkeys(found))
