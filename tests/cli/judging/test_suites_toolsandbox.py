"""What is known to differ between ToolSandbox's own command line and ours, each by a behaviour of
`just parity toolsandbox`. REHEARSAL_TOOLSANDBOX names a checkout, and REHEARSAL_TOOLSANDBOX_PYTHON
an interpreter with its packages."""

import os
from pathlib import Path

import pytest

from tests.suites.parity.toolsandbox.behaviours import KNOWN
from tests.suites.parity.toolsandbox.compare import Checkout, Pass

_FOLDER, _PYTHON = (os.environ.get(f"REHEARSAL_TOOLSANDBOX{name}", "") for name in ("", "_PYTHON"))
pytestmark = [
    pytest.mark.slow,  # both sides load all scenarios
    pytest.mark.timeout(600),
    pytest.mark.skipif(not (_FOLDER and _PYTHON), reason="REHEARSAL_TOOLSANDBOX names no checkout"),
]
_SCENARIOS = dict(zip(("cellular_off", "wifi_off", "get_cellular", "get_wifi"), KNOWN, strict=True))


def test_what_is_known_to_differ_differs_as_the_table_says() -> None:
    """Blank arguments, seven calls in a reply, a user whose ids upstream cannot read, and an empty
    list of calls: upstream's score and ours, and how often each side was asked."""
    played = Pass(Checkout(Path(_FOLDER), _PYTHON), 0, _SCENARIOS)
    theirs, ours, differences, model = played.played()
    found = {
        behaviour: (
            *(side[name]["similarity"] for side in (theirs, ours)),
            *(model.bodies[side][f"{name} agent"].total() for side in ("upstream", "ours")),
        )
        for name, behaviour in _SCENARIOS.items()
    }
    assert found == {
        "blank arguments": (0.0, 1.0, 1, 3),  # the call fails here, and the right one follows
        "seven calls in a reply": (1.0, 0.0, 3, 1),
        "a user whose ids have -": (1.0, 1.0, 8, 2),  # upstream talks to its limit
        "an empty list of calls": (0.0, 0.0, 61, 1),  # upstream stops when the model does
    }
    assert theirs["cellular_off"]["exception_type"] == "JSONDecodeError"
    assert "make at most 6 in one reply" in ours["wifi_off"]["why"]
    assert {what for what, _ in differences["get_cellular"]} == {
        *("turns", "requests of agent", "requests of user")
    }
    assert played.alike[False, "get_wifi", 2] == 61
