"""What becomes of a marked test when its own lines are done: its claims are decided, and its report
has the decision."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.judge.failures.reading import kinds_of
from rehearsal_room.judge.promotion.facts import read_facts
from rehearsal_room.judge.statistics.compare_output import comparison_lines
from rehearsal_room.judge.statistics.compared_runs import compare_runs
from rehearsal_room.testing.baselines import Baselines
from rehearsal_room.testing.claims import Claim, claim_of
from rehearsal_room.testing.decisions import Decision, SharedAlpha, decide
from rehearsal_room.testing.failed_episode import failed_episode_lines
from rehearsal_room.testing.plays import RunPlayer, reported

PROPERTY = "rehearse"  # of a test's report: the decision in words
VERDICT_PROPERTY = "rehearse_verdict"
_num_claims = pytest.StashKey[int]()
_player = pytest.StashKey[RunPlayer]()


def run_player(item: pytest.Item, folder: Path) -> RunPlayer:
    """What plays a test's agent; its run is the one that the claims are about."""
    item.stash[_player] = player = RunPlayer(claim_of(item.iter_markers("rehearse")), folder)
    return player


def check_marks(item: pytest.Item) -> None:
    """Fail a test whose marks cannot be used, or whose base does not exist, before it plays."""
    with reported():
        claim = claim_of(item.iter_markers("rehearse"))
        if claim.no_worse_than and not _is_saved_now(item, claim):
            _baselines(item).find(claim.no_worse_than, item.nodeid)


def settle(item: pytest.Item) -> None:
    """Decide the claims of a test that has passed so far; save its run where the user asked."""
    with reported():
        claim = claim_of(item.iter_markers("rehearse"))
        if (run := _run_of(item, claim)) is None:
            return
        base = _base_of(item, claim)
        before = None if base is None else read_facts(base)
        alpha = SharedAlpha(float(item.config.getini("rehearse_alpha")), _claims_in(item.session))
        decision = decide(claim, read_facts(run), before, alpha)
        if name := item.config.getoption("rehearse_save"):
            _baselines(item).save(name, item.nodeid, run)
    if decision.lines:
        _apply(item, decision, run, base)


def _run_of(item: pytest.Item, claim: Claim) -> Path | None:
    """The folder of the last run of a test; None: it has none, and claims nothing. Raises
    SettingsError where it claims something."""
    player = item.stash.get(_player, None)
    if player is not None and player.played:
        return player.played[-1].folder
    if claim.count:
        raise SettingsError(
            "the test claims something about an agent, and has none: call `rehearse_run(agent)`"
        )
    return None


def _apply(item: pytest.Item, decision: Decision, run: Path, base: Path | None) -> None:
    words = "\n".join(decision.lines)
    item.user_properties += [(PROPERTY, words), (VERDICT_PROPERTY, decision.verdict)]
    instead = item.config.getini("rehearse_inconclusive")
    if decision.verdict == "fail" or (decision.verdict == "inconclusive" and instead == "fail"):
        pytest.fail("\n".join(_failure(decision.lines, run, base)), pytrace=False)
    if decision.verdict == "inconclusive" and instead == "xfail":
        pytest.xfail(words)


def _failure(decided: Sequence[str], run: Path, base: Path | None) -> Iterator[str]:
    """What a failed test prints."""
    yield from decided
    lost: tuple[str, ...] = ()
    if base is not None:
        with suppress(SettingsError):  # they share no task
            compared = compare_runs([base, run], kinds_of=kinds_of)
            lost = compared.lost
            yield from ("", *comparison_lines(msgspec.structs.replace(compared, groups=())))
    yield ""
    yield from failed_episode_lines(run, lost)


def _claims_in(session: pytest.Session) -> int:
    """The number of claims in the tests that this session runs, in whichever process."""
    if _num_claims not in session.stash:
        session.stash[_num_claims] = sum(_num_claims_of(item) for item in session.items)
    return session.stash[_num_claims]


def _num_claims_of(item: pytest.Item) -> int:
    try:
        return claim_of(item.iter_markers("rehearse")).count
    except SettingsError:  # this test has failed by its marks
        return 0


def _base_of(item: pytest.Item, claim: Claim) -> Path | None:
    """The run with which a claim is compared; None: it is not compared."""
    if not claim.no_worse_than or _is_saved_now(item, claim):
        return None
    return _baselines(item).find(claim.no_worse_than, item.nodeid)


def _is_saved_now(item: pytest.Item, claim: Claim) -> bool:
    """Whether this session saves the run that a claim names, so that it compares nothing."""
    return bool(item.config.getoption("rehearse_save") == claim.no_worse_than)


def _baselines(item: pytest.Item) -> Baselines:
    return Baselines(item.config.rootpath, item.config.getini("rehearse_baselines"))
