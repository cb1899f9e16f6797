"""What is known to differ between EnterpriseOps-Gym's own runner and ours, each by a behaviour of
`just parity enterpriseops`, on the stub gym. REHEARSE_ENTERPRISEOPS names a checkout, and
REHEARSE_ENTERPRISEOPS_PYTHON an interpreter with httpx and langchain-core."""

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.suites.parity.enterprise.compare import KNOWN, compare

_FOLDER, _PYTHON = (os.environ.get(f"REHEARSE_ENTERPRISEOPS{name}", "") for name in ("", "_PYTHON"))
pytestmark = [
    pytest.mark.slow,  # upstream's runner and ours play twenty tasks each
    pytest.mark.timeout(600),  # upstream waits between its requests to a model that fails
    pytest.mark.skipif(not (_FOLDER and _PYTHON), reason="REHEARSE_ENTERPRISEOPS is not set"),
]
_MODES = ("oracle", "plus_5_tools", "plus_10_tools", "plus_15_tools")
# What differs, and in how many of the twenty tasks.
_DIFFERENCES = {
    "calls what there is not": {"requests": 20},
    # The task that doing nothing solves, and two that it meets in half.
    "sends a list of arguments": {
        "requests": 20,
        "success": 1,
        "share": 3,
        "second column": 1,
        "oracle": 1,
    },
    # Upstream counts 0; here the episodes are in no mean.
    "the model fails at first": {"requests": 8, "second column": 1, **dict.fromkeys(_MODES, 1)},
    # All but the task without calls; results and scores are equal.
    "repeats an id": {"requests": 19},
    "is played twice": {"requests": 20, "judge": 1},
}


@pytest.mark.parametrize("behaviour", KNOWN)
def test_what_is_known_to_differ_differs_as_the_table_says(behaviour: str) -> None:
    """Verdicts, shares, scores and requests: which of them differ, and in how many tasks."""
    found, theirs, ours = compare(Path(_FOLDER).absolute(), _PYTHON, behaviour)

    kinds = Counter(
        subject.partition(" ")[2] if subject[:3] in theirs else subject
        for subject in (line.partition(":")[0] for line in found)
    )
    assert kinds == _DIFFERENCES[behaviour]
    unjudged = sorted(name for name, one in ours.items() if one["unjudged"])
    failing = [f"t{number:02}" for number in range(8)]
    assert unjudged == (failing if behaviour == "the model fails at first" else [])
