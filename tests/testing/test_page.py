"""docs/testing.md shows what there is."""

import re

import pytest

from rehearsal_room.judge.statistics.outcomes import Outcome
from rehearsal_room.testing import live_world, settling
from rehearsal_room.testing.claims import Claim
from rehearsal_room.testing.decisions import SharedAlpha, decide
from tests.judge.promotion.drawn import facts_of
from tests.support.paths import ROOT
from tests.testing.aa_campaign import plugin_options

pytest_plugins = ["pytester"]

PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
USED = (live_world, settling)  # a session in this process drops what it is first to import


def test_the_examples_run(pytester: pytest.Pytester) -> None:
    """The page's tests pass, and pytest prints the lines that the page shows."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    pytester.makepyfile(test_agent="\n\n".join(blocks))
    result = pytester.runpytest_inprocess("-Werror", "-v", *plugin_options())
    assert result.parseoutcomes() == {"passed": 2}
    shown = re.search(r"^test_agent.py::test_gift_cards: .*$", PAGE, re.MULTILINE)
    assert shown is not None and shown[0] in result.outlines


def test_how_many_runs_are_needed() -> None:
    """From the number in the table on a claim holds if all episodes are completed, below it not."""
    (shares,) = re.findall(r"^\| `at_least` \| ([\d. |]+) \|$", PAGE, re.MULTILINE)
    (runs,) = re.findall(r"^\| runs \| ([\d |]+) \|$", PAGE, re.MULTILINE)
    for share, count in zip(shares.split(" | "), map(int, runs.split(" | ")), strict=True):
        found = [
            decide(
                Claim(at_least=float(share)),
                facts_of(Outcome("w", "t", seed, 1.0) for seed in range(number)),
                None,
                SharedAlpha(0.05, 1),
            ).verdict
            for number in (count - 1, count)
        ]
        assert found == ["inconclusive", "pass"], share
