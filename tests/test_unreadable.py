"""What somebody else wrote may be nested so deeply that reading it raises RecursionError."""

import ast
from collections.abc import Iterator

import msgspec
import pytest

from rehearsal_room.scenarios.files import UNREADABLE
from tests.support.paths import ROOT

FOLDERS = ("scenarios", "envpool", "harness", "judge", "learner", "src/rehearsal_room")
CONVERTED = {
    "harness/log/reader.py",  # record_of and decode_snapshot raise nothing else
    "envpool/workers/pool.py",  # it writes
}


def caught() -> Iterator[tuple[str, str]]:
    """What every `except` and `suppress` of the product catches, with its place."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if any(part.is_symlink() for part in path.parents):
                continue
            name = path.relative_to(ROOT).as_posix()
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ExceptHandler) and node.type is not None:
                    yield f"{name}:{node.lineno}", ast.unparse(node.type)
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
                    yield f"{name}:{node.lineno}", ast.unparse(node)


def test_damage_is_caught_with_its_depth() -> None:
    """Where a text that msgspec cannot read is caught, one that is nested too deeply is, too."""
    found = [
        place
        for place, what in caught()
        if ("msgspec.DecodeError" in what or "msgspec.MsgspecError" in what)
        and "RecursionError" not in what
    ]
    assert [one for one in found if one.partition(":")[0] not in CONVERTED] == []


@pytest.mark.parametrize("data", [b"[" * 10_000, b"\xff", b"{", b'"\xff"'])
def test_what_cannot_be_read(data: bytes) -> None:
    """One tuple has all that msgspec raises for bytes."""
    with pytest.raises(UNREADABLE):
        msgspec.json.decode(data)
