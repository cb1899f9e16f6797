"""The heap of a process in huge pages."""

from tests.support.huge_pages import collapsed


def test_objects_stay_as_they_are() -> None:
    """Most of the heap moves, and no object changes. Where the kernel does not allow it, nothing
    moves."""
    num_bytes, words = collapsed()
    assert words == "True True"
    assert num_bytes == 0 or num_bytes >= 24 * 2**20
