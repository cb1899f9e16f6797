"""A few forbidden acts, tried by processes that are confined as workers are."""

import pytest

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.workers.sandbox import why_no_bubblewrap
from rehearsal_room.envpool.workers.trial import ACTS, try_acts
from tests.support.promises import level_here


@pytest.mark.parametrize("level", ["seccomp+landlock:4", "bubblewrap+seccomp"])
def test_a_level_that_keeps_every_promise_refuses_all(level: str) -> None:
    """Each act fails in a process that is confined at it."""
    if not level_here(level):
        pytest.skip(f"{level} is not available here")
    assert try_acts(level) == dict.fromkeys(ACTS, True)


def test_resource_limits_refuse_none_of_them() -> None:
    """The acts succeed where nothing forbids them, so a refusal proves something."""
    refused = try_acts("rlimits")
    del refused["start a process"]  # the limit of processes does not bind root
    assert refused == dict.fromkeys(refused, False)


@pytest.mark.skipif(bool(why_no_bubblewrap()), reason="bubblewrap is not available here")
def test_bubblewrap_alone_guards_files_only() -> None:
    """Its empty network has sockets, and its processes may start others."""
    refused = try_acts("bubblewrap")
    assert [name for name, is_refused in refused.items() if is_refused] == [
        "read a file outside",
        "write a file outside",
    ]


def test_a_level_that_is_not_available_is_one_sentence() -> None:
    """The last line of the error, not a traceback."""
    with pytest.raises(PoolError, match="'chroot' is not a sandbox layer"):
        try_acts("seccomp+chroot")
