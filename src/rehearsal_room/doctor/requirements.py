"""Requirements of the installed distribution, and whether installed packages satisfy them.

Reads the metadata that pip wrote, so that it states what this installation needs, not what a
checkout beside it needs. It understands the forms that our pyproject.toml uses: a name, extras,
`>=`, `<`, `==`, and a marker that names an extra, a platform or an implementation. (The library
`packaging` knows all forms, but the core does not depend on it.)
"""

import operator
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata

import msgspec

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)\s*(?:\[(?P<extras>[^\]]*)\])?\s*\(?(?P<bounds>[^;)]*)\)?\s*"
    r"(?:;(?P<marker>.*))?"
)
_BOUND = re.compile(r"(>=|==|<)\s*([A-Za-z0-9.+!]+)")
_CONDITION = re.compile(r"(\w+)\s*(==|!=)\s*['\"]([^'\"]*)['\"]")
_COMPARISONS = {">=": operator.ge, "<": operator.lt, "==": operator.eq}
_ENVIRONMENT = {
    "sys_platform": sys.platform,
    "platform_python_implementation": platform.python_implementation(),
}


class Requirement(msgspec.Struct, frozen=True):
    """One package that an installation needs."""

    name: str
    bounds: str = ""  # such as ">=2,<3"; empty: any version
    extra: str = ""  # that needs it; empty: the core
    extras: tuple[str, ...] = ()  # of the package

    def __str__(self) -> str:
        return f"{self.name}{self.bounds}"


class Installed(msgspec.Struct, frozen=True):
    """What one part (the core or an extra) has, and what it lacks."""

    versions: dict[str, str]  # by package
    faults: tuple[str, ...]  # such as "pyarrow is not installed"


def parse_requirement(text: str) -> Requirement | None:
    """The requirement; None: it does not apply to this platform.

    Example: "pyarrow>=18; extra == 'parquet'"
        -> Requirement("pyarrow", ">=18", extra="parquet")
    """
    found = _REQUIREMENT.fullmatch(text.strip())
    assert found, text
    extra = ""
    for name, comparison, value in _CONDITION.findall(found["marker"] or ""):
        if name == "extra":
            extra = value
        elif (_ENVIRONMENT[name] == value) != (comparison == "=="):
            return None
    extras = tuple(each.strip() for each in (found["extras"] or "").split(",") if each.strip())
    return Requirement(found["name"], found["bounds"].replace(" ", ""), extra, extras)


def satisfies(version: str, bounds: str) -> bool:
    """Whether a version lies within the bounds.

    Example: "2.13.0+cpu", ">=2.13,<2.14" -> True
    """
    own = _release(version)
    return all(
        _COMPARISONS[sign](*_padded(own, _release(bound))) for sign, bound in _BOUND.findall(bounds)
    )


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version, with those of a pre-release; without its local part.

    Example: "1.0.0.dev5" -> (1, 0, 0, 5)
    """
    return tuple(map(int, re.findall(r"\d+", version.partition("+")[0])))


def _padded(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Both with equal length: 2 is 2.0."""
    length = max(len(one), len(other))
    return tuple(each + (0,) * (length - len(each)) for each in (one, other))


def requirements_of(distribution: str) -> list[Requirement]:
    """All requirements of an installed distribution, with those of its extras. Raises
    PackageNotFoundError."""
    parsed = (parse_requirement(text) for text in metadata.requires(distribution) or ())
    return [each for each in parsed if each is not None]


def of_extra(requirements: Iterable[Requirement], extra: str, own: str) -> Iterator[Requirement]:
    """What one extra needs, with what the extras need that it names itself (`own[tokens]`)."""
    listed = list(requirements)
    for each in listed:
        if each.extra != extra:
            continue
        if each.name == own:
            for inner in each.extras:
                yield from of_extra(listed, inner, own)
        else:
            yield each


def look_up(requirements: Iterable[Requirement]) -> Installed:
    """The installed versions of packages, and what is wrong with them."""
    versions, faults = {}, []
    for each in requirements:
        try:
            version = versions[each.name] = metadata.version(each.name)
        except metadata.PackageNotFoundError:
            faults.append(f"{each.name} is not installed")
            continue
        if not satisfies(version, each.bounds):
            faults.append(f"{each.name} is {version}, not {each.bounds}")
    return Installed(versions, tuple(faults))
