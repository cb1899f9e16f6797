"""How often a session with nothing but true claims has a red test, and how often a true drop is
found.

    python -m tests.testing.aa_campaign drawn 1000     half a minute of CPU
    python -m tests.testing.aa_campaign drops 4000     two minutes
    python -m tests.testing.aa_campaign pytest 1000    twenty minutes

`drawn` sessions have agents that just reach what is claimed of them, and equal agents that are
compared, decided by the plug-in's code at alpha 0.05. The sessions of `pytest` are real: one saves
the runs of scripted agents in real worlds, and the next one compares equal agents with them.
"""

import contextlib
import gc
import io
import os
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from scipy import stats

from rehearsal_room.judge.promotion.criteria import RunFacts
from rehearsal_room.judge.statistics.planning import plan
from rehearsal_room.testing.claims import Claim
from rehearsal_room.testing.decisions import SharedAlpha, decide
from tests.judge.promotion.drawn import facts_of
from tests.judge.statistics.verdict_campaign import PROMISED, PromisedPower, drawn

ALPHA = 0.05
MOST_APART = 0.03  # of measured and promised power
_SALT = "REHEARSAL_AA_SALT"

# A session of pytest. Its agents just reach what is claimed, or are equal to those of the base.
SESSION = f'''
import os

import pytest

from tests.testing.scripted_agents import scripted

TASKS = [
    f"shop_support:{{task}}"
    for task in (
        "gift-card-balance", "podcast-coupon", "boots-on-order", "daypack-stock", "new-email",
        "tent-price-history", "columbus-low-stock", "refunds-this-year", "close-answered-ticket",
        "tell-tracking",
    )
]


def played(rehearse_run, share, name):
    rehearse_run(scripted("shop_support", share, os.environ["{_SALT}"] + name))


@pytest.mark.rehearse(TASKS[0], runs=20, at_least=0.8)
def test_one_task(rehearse_run):
    played(rehearse_run, 0.8, "one")


@pytest.mark.rehearse(*TASKS, runs=20, at_least=0.5)
def test_many_tasks(rehearse_run):
    played(rehearse_run, 0.5, "many")


@pytest.mark.rehearse(*TASKS, runs=20, no_worse_than="base")
def test_as_before(rehearse_run):
    played(rehearse_run, 0.6, "before")
'''


class BorderlineClaim(NamedTuple):
    """An agent that completes exactly the share that is claimed, each task with another chance."""

    at_least: float
    tasks: int
    runs: int


class EqualAgents(NamedTuple):
    """Two agents with the same chances, from low to high."""

    tasks: int
    tries: int
    low: float
    high: float


Drawn = BorderlineClaim | EqualAgents
BORDERLINE = (
    BorderlineClaim(0.8, 1, 20),
    BorderlineClaim(0.5, 1, 10),
    BorderlineClaim(0.9, 10, 40),
    BorderlineClaim(0.7, 25, 50),
)
EQUAL = (
    EqualAgents(10, 2, 0.2, 0.8),
    EqualAgents(20, 1, 0.5, 0.5),
    EqualAgents(45, 1, 0.1, 0.9),
    EqualAgents(30, 4, 0.6, 1.0),
)


def is_red(seed: int) -> bool:
    """Whether a drawn session, in which every claim is true, has a red test."""
    random = Random(f"aa {seed}")
    claims = random.choices((*BORDERLINE, *EQUAL), k=random.choice((1, 8, 32)))
    alpha = SharedAlpha(ALPHA, len(claims))
    return any(_verdict(random, one, alpha) == "fail" for one in claims)


def _verdict(random: Random, one: Drawn, alpha: SharedAlpha) -> str:
    if isinstance(one, EqualAgents):
        chances = [random.uniform(one.low, one.high) for _ in range(one.tasks)]
        base, now = (facts_of(drawn(random, chances, one.tries)) for _ in range(2))
        return decide(Claim(no_worse_than="base"), now, base, alpha).verdict
    chances = _chances_around(random, one.at_least, one.tasks)
    now = facts_of(drawn(random, chances, one.runs // one.tasks))
    return decide(Claim(at_least=one.at_least), now, None, alpha).verdict


def _chances_around(random: Random, mean: float, tasks: int) -> list[float]:
    """Chances whose mean is exact: in pairs, one above and one below."""
    widest = min(mean, 1 - mean)
    apart = [random.uniform(0, widest) for _ in range(tasks // 2)]
    pairs = [mean + side * one for one in apart for side in (1, -1)]
    return [*pairs, *[mean] * (tasks % 2)]


def most_red(sessions: int) -> int:
    """The 98.5 % bound of a true 5 %: 65 of 1,000."""
    return int(stats.binom.ppf(0.985, sessions, ALPHA))


def power_found(pair: PromisedPower, claims: int, count: int) -> tuple[int, float, float]:
    """The tasks that `compare size` asks for at the alpha of one of so many claims, the power that
    it promises, and the share of drops of this size that turn the test red."""
    alpha = SharedAlpha(ALPHA, claims)
    promised = plan(pair.detect, alpha=alpha.each, tries=pair.tries, noise=pair.noise)
    random, found = Random(f"{pair} {claims}"), 0
    for _ in range(count):
        base, now = (_alike(random, chance, promised.tasks, pair) for chance in pair[1::-1])
        found += decide(Claim(no_worse_than="base"), now, base, alpha).verdict == "fail"
    return promised.tasks, promised.power, found / count


def _alike(random: Random, chance: float, tasks: int, pair: PromisedPower) -> RunFacts:
    return facts_of(drawn(random, [chance] * tasks, pair.tries))


def is_red_in_pytest(folder: Path, seed: int) -> bool:
    """Whether a real session of pytest is red: it compares equal agents with the runs that another
    session has saved, and each agent just reaches what is claimed of it."""
    (folder / "test_session.py").write_text(SESSION, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    _session(folder, f"{seed} base", "--rehearse-save", "base", "-k", "as_before")
    return _session(folder, f"{seed} now") == pytest.ExitCode.TESTS_FAILED


def _session(folder: Path, salt: str, *options: str) -> int:
    os.environ[_SALT] = salt
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = pytest.main(
            [
                *("-q", "-p", "no:cacheprovider", "-p", "no:unraisableexception"),
                *("-c", str(folder / "pytest.ini"), "--basetemp", str(folder / "temp")),
                *(*plugin_options(), *options, str(folder / "test_session.py")),
            ]
        )
    assert status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), printed.getvalue()
    return int(status)


def plugin_options() -> tuple[str, ...]:
    """What loads the plug-in where the package was installed before it had one."""
    installed = metadata.entry_points(group="pytest11", name="rehearse")
    return () if installed else ("-p", "rehearsal_room.testing.plugin")


def drawn_sessions(count: int) -> bool:
    """Whether at most as many of the drawn sessions are red as may be."""
    red = sum(map(is_red, range(count)))
    _say(f"{red} of {count} drawn sessions red; at most {most_red(count)}")
    return red <= most_red(count)


def drops(count: int) -> bool:
    """Whether drops are found as often as `compare size` promises."""
    furthest = 0.0
    for pair in PROMISED:
        for claims in (1, 4):
            tasks, promised, found = power_found(pair, claims, count)
            furthest = max(furthest, abs(found - promised))
            what = f"{pair.second:g} to {pair.first:g}, {pair.tries} tries, {claims} claims"
            _say(f"{what}: {tasks} tasks, power promised {promised:.3f}, found {found:.3f}")
    return furthest <= MOST_APART


def pytest_sessions(count: int) -> bool:
    """Whether at most as many of pytest's sessions are red as may be."""
    gc.freeze()  # pytest collects all garbage at the end of each session
    red, most = 0, most_red(count)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(count):
            red += is_red_in_pytest(Path(folder), seed)
            if (seed + 1) % 50 == 0 or seed + 1 == count:
                _say(f"{red} of {seed + 1} sessions of pytest red; at most {most} of {count}")
    return red <= most


PARTS = {"drawn": drawn_sessions, "drops": drops, "pytest": pytest_sessions}


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    part, count = sys.argv[1], int(sys.argv[2])
    sys.exit(0 if PARTS[part](count) else 1)
