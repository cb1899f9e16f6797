"""The promises of envpool.workers.sandbox, kept by the kernel alone, without the audit hook."""

import os
from pathlib import Path

import pytest

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.workers import confine
from rehearsal_room.envpool.workers.sandbox import (
    AT_MOST,
    WorkerLimits,
    environment,
    keeps_every_promise,
    layers_of,
    lower,
    require,
    why_no_bubblewrap,
)
from tests.support.confined import why_no_ordinary_user
from tests.support.promises import (
    ACCEPTED,
    PROMISES,
    REFUSED,
    SHORT,
    broken,
    committed,
    level_here,
)

PAGE = Path(__file__).parents[3] / "docs" / "sandbox.md"
pytestmark = pytest.mark.timeout(120)  # a level takes two seconds, one of them up to its CPU limit


@pytest.mark.slow
@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("level", ACCEPTED)
def test_promise(level: str, promise: str) -> None:
    """At each level that `required` accepts the kernel keeps the promise."""
    if not level_here(level):
        pytest.skip(f"{level} is not available here")
    assert broken(level, ordinary=False)[promise] == []


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="the other tests run as an ordinary user already")
@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("level", SHORT)
def test_promise_as_an_ordinary_user(level: str, promise: str) -> None:
    """Where an ordinary user runs the workers, the kernel keeps the promise too."""
    if why := why_no_ordinary_user() or ("" if level_here(level) else "no such level here"):
        pytest.skip(why)
    assert broken(level, ordinary=True)[promise] == []


@pytest.mark.parametrize(
    "level",
    [ACCEPTED[0], *(pytest.param(level, marks=pytest.mark.slow) for level in ACCEPTED[1:])],
)
def test_the_table_agrees(level: str) -> None:
    """The table in docs/sandbox.md says what is measured here."""
    if not level_here(level):
        pytest.skip(f"{level} is not available here")
    found = broken(level, ordinary=False)
    shown = committed(PAGE)
    assert {name: shown[level, name] for name in PROMISES} == {
        name: f"{len(cases)} of {len(PROMISES[name])} open" if cases else "kept"
        for name, cases in found.items()
    }
    assert shown[level, "required"] == "accepts"


def test_the_table_names_the_levels_that_are_refused() -> None:
    """It also shows what is open at levels that `required` refuses."""
    shown = committed(PAGE)
    for level in REFUSED:
        assert shown[level, "required"] == "refuses"
        assert any("open" in shown[level, promise] for promise in PROMISES)


@pytest.mark.parametrize(
    ("level", "accepted"),
    [
        ("bubblewrap+seccomp+landlock:7", True),
        ("bubblewrap+seccomp+landlock:1", True),
        ("bubblewrap+seccomp", True),
        ("seccomp+landlock:4", True),
        ("seccomp+landlock:3", False),
        ("seccomp+landlock", False),  # of an unknown version
        ("bubblewrap+landlock:7", False),
        ("seccomp", False),
        ("rlimits", False),
    ],
)
def test_what_required_accepts(level: str, accepted: bool) -> None:
    """`required` demands seccomp, and bubblewrap or Landlock from version 4 on."""
    assert keeps_every_promise(level) is accepted
    if accepted:
        require("required", level)
    else:
        with pytest.raises(PoolError) as caught:
            require("required", level, ["bubblewrap: bwrap is not installed"])
        assert str(caught.value) == (
            f"sandbox 'required' is not available here: the level is {level!r}; "
            "bubblewrap: bwrap is not installed"
        )


@pytest.mark.parametrize(
    "required",
    ["best", "off", "seccomp", "bubblewrap+seccomp+landlock", "landlock:6", "rlimits"],
)
def test_a_level_includes_lower_ones(required: str) -> None:
    """A level's name means at least its layers, of Landlock at least its version."""
    require(required, "bubblewrap+seccomp+landlock:6")


@pytest.mark.parametrize(
    ("required", "message"),
    [
        ("bubblewrap", "sandbox 'bubblewrap' is not available here: the level is 'seccomp+landl"),
        ("landlock:6", "sandbox 'landlock:6' is not available here: the level is 'seccomp+landl"),
        ("castle", "sandbox: 'castle' is not a sandbox layer; expected bubblewrap, seccomp"),
        ("seccomp:2", "sandbox: 'seccomp:2' is not a layer with a version, such as landlock:6"),
        ("landlock:x", "sandbox: 'landlock:x' is not a layer with a version, such as landlock:6"),
    ],
)
def test_a_level_that_is_not_reached(required: str, message: str) -> None:
    """A layer that is missing, older or unknown is refused with a sentence."""
    with pytest.raises(PoolError) as caught:
        require(required, "seccomp+landlock:5")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("level", "at_most", "lowered"),
    [
        ("bubblewrap+seccomp+landlock:7", "seccomp+landlock:4", "seccomp+landlock:4"),
        ("bubblewrap+seccomp+landlock:5", "bubblewrap+seccomp+landlock:9", None),
        ("bubblewrap+seccomp+landlock:5", "bubblewrap+seccomp+landlock", None),
        ("seccomp", "bubblewrap+seccomp+landlock:6", None),
        ("seccomp+landlock:5", "rlimits", ""),
    ],
)
def test_a_limit_only_lowers(level: str, at_most: str, lowered: str | None) -> None:
    """The limit that tests set takes layers away and adds none."""
    assert lower(level, at_most) == (level if lowered is None else lowered)


def test_the_limit_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable lowers the level of all workers of a process, and no worker sees it."""
    monkeypatch.setenv(AT_MOST, "seccomp+landlock:5")
    at_most = WorkerLimits().at_most
    level, missing = confine.available_layers("required", at_most)
    assert set(layers_of(level or "rlimits")) <= {"seccomp", "landlock"}
    assert layers_of(level or "rlimits").get("landlock", 0) <= 5
    assert missing[-1] == "the level is limited to seccomp+landlock:5"
    assert why_no_bubblewrap(at_most) == "the level is limited to seccomp+landlock:5"
    assert AT_MOST not in environment("/scratch")
