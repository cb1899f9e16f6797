"""Rules for generated Python."""

import pytest

from rehearsal_room.scenarios.synth.core.code_rules import (
    TOOL_IMPORTS,
    code_faults,
    verifier_faults,
)


@pytest.mark.parametrize(
    ("code", "faults"),
    [
        ("import os\n", ["line 1: os cannot be imported here"]),
        ("from . import x\n", ["line 1: . cannot be imported here"]),
        ("x = open('f')\n", ["line 1: open is not to be used"]),
        ("x = (\n", ["line 1: '(' was never closed"]),
        (
            "import datetime\nx = datetime.datetime.now()\n",
            ["line 2: now() is the wall clock; the world's time is db.now"],
        ),
        ("from scenarios.api import Db\n\ndef f(db: Db) -> str:\n    return db.now\n", []),
    ],
)
def test_tools_may_not_access_the_outside(code: str, faults: list[str]) -> None:
    """Their text is checked without executing it."""
    assert code_faults(code, TOOL_IMPORTS) == faults


def test_a_verifier_is_one_function() -> None:
    """It has the expected name, and the file contains nothing else than imports."""
    assert verifier_faults("import re\n\ndef f(b, a, x):\n    return []\n", "f") == []
    assert verifier_faults("Y = 1\n\ndef g(b, a, x):\n    return []\n", "f") == [
        "line 1: only imports and the one function may stand there; "
        "put constants and helpers inside of it",
        "expected one function 'f', found g",
    ]
