"""Requirements as pip's metadata has them, and versions against their bounds."""

import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement as Reference
from packaging.version import Version

from rehearsal_room.doctor.requirements import (
    Installed,
    Requirement,
    look_up,
    of_extra,
    parse_requirement,
    satisfies,
)
from rehearsal_room.scenarios.distribution import NAME
from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENTS = [
    *PROJECT["dependencies"],
    *(text for texts in PROJECT["optional-dependencies"].values() for text in texts),
]
VERSIONS = ("0.9", "1", "1.0.0", "2.0.41", "2.1", "2.13.0", "2.13.0+cpu", "2.14", "30.1", "40.54")


@pytest.mark.parametrize("text", REQUIREMENTS)
def test_every_requirement_of_ours_is_read_as_packaging_reads_it(text: str) -> None:
    """Name, extras, whether it applies here, and which versions satisfy it."""
    reference, found = Reference(text), parse_requirement(text)
    if reference.marker is not None and not reference.marker.evaluate():
        assert found is None
        return
    assert found is not None
    assert (found.name, set(found.extras)) == (reference.name, reference.extras)
    assert [satisfies(each, found.bounds) for each in VERSIONS] == [
        reference.specifier.contains(Version(each), prereleases=True) for each in VERSIONS
    ]


def test_metadata_of_an_extra() -> None:
    """The marker names the extra, alone or with a platform; another platform's does not apply."""
    assert parse_requirement("pyarrow>=18; extra == 'parquet'") == Requirement(
        "pyarrow", ">=18", "parquet"
    )
    assert parse_requirement('x (<2,>=1) ; sys_platform != "amiga" and extra == "y"') == (
        Requirement("x", "<2,>=1", "y")
    )
    assert parse_requirement('x; sys_platform == "amiga" and extra == "y"') is None


def test_an_extra_has_what_its_extras_need() -> None:
    """`own[tokens]` stands for the requirements of extra tokens."""
    needed = [
        Requirement("jinja2", extra="tokens"),
        Requirement("own", extra="train", extras=("tokens",)),
        Requirement("torch", extra="train"),
    ]
    assert [each.name for each in of_extra(needed, "train", "own")] == ["jinja2", "torch"]


def test_faults_of_packages() -> None:
    """A package that is missing, and one whose version is out of bounds, are each a sentence."""
    version = metadata.version("click")
    found = look_up([Requirement("click", "<2"), Requirement("no-such-package", ">=1")])
    assert found == Installed(
        {"click": version}, (f"click is {version}, not <2", "no-such-package is not installed")
    )


def test_the_installation_is_that_of_the_checkout() -> None:
    """The metadata of this environment names what pyproject.toml requires."""
    assert {str(Reference(text).name) for text in metadata.requires(NAME) or ()} == {
        Reference(text).name for text in REQUIREMENTS
    }
