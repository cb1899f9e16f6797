"""The plug-in of pytest: fixtures that play agents in worlds, and a mark for what is claimed of
them.

    @pytest.mark.rehearse("shop_support:cancel-duplicate", runs=20, at_least=0.8)
    def test_the_duplicate_is_cancelled(rehearse_run):
        rehearse_run(agent)

pytest imports this module in every session, so it imports nothing of the project before a test uses
a fixture or the mark. `-p no:rehearse` leaves it out.
"""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

_MARK = "rehearse"
_INSTEAD = ("xfail", "fail", "pass")


def pytest_addoption(parser: pytest.Parser) -> None:
    """One flag and three settings."""
    parser.getgroup("rehearse", "agents in worlds").addoption(
        "--rehearse-save",
        default="",
        metavar="NAME",
        help="Save the run of each marked test under this name, for no_worse_than.",
    )
    parser.addini(
        "rehearse_alpha",
        "The chance of a red test in a session whose claims are all true.",
        default="0.05",
    )
    parser.addini(
        "rehearse_inconclusive",
        "The outcome of a test with too few episodes to decide: xfail, fail or pass.",
        default="xfail",
    )
    parser.addini(
        "rehearse_baselines", "The folder of saved runs, from the root.", default=".rehearse"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Describe the mark, and refuse settings that cannot be used."""
    config.addinivalue_line(
        "markers",
        "rehearse(*scenarios, runs=None, at_least=None, no_worse_than=None, margin=0): play an"
        " agent in these worlds with rehearse_run, and decide what is claimed of it.",
    )
    alpha, instead = config.getini("rehearse_alpha"), config.getini("rehearse_inconclusive")
    if not _is_alpha(alpha):
        raise pytest.UsageError(
            f"rehearse_alpha = {alpha}: expected a number above 0 and at most 0.5"
        )
    if instead not in _INSTEAD:
        raise pytest.UsageError(
            f"rehearse_inconclusive = {instead}: expected one of {', '.join(_INSTEAD)}"
        )


def _is_alpha(text: str) -> bool:
    try:
        return 0 < float(text) <= 0.5
    except ValueError:
        return False


@pytest.fixture
def rehearse_run(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    """Play episodes of an agent: `rehearse_run(agent)` gives the report and the folder."""
    from rehearsal_room.testing.settling import run_player

    return run_player(request.node, tmp_path)


@pytest.fixture
def rehearse_episode(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    """Play one episode of an agent: `rehearse_episode(agent)` gives its trajectory, verdict and
    changed rows."""
    from rehearsal_room.testing.claims import claim_of
    from rehearsal_room.testing.plays import EpisodePlayer

    return EpisodePlayer(claim_of(request.node.iter_markers(_MARK)), tmp_path)


@pytest.fixture
def rehearse_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[object]:
    """A live world of the mark's task, or of the parameter's: `rehearse_world.call(name, {…})`."""
    from rehearsal_room.testing.claims import claim_of
    from rehearsal_room.testing.live_world import leased

    name = getattr(request, "param", None)
    with leased(name, claim_of(request.node.iter_markers(_MARK)), tmp_path) as world:
        yield world


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check the marks before anything is played."""
    if item.get_closest_marker(_MARK) is not None:
        from rehearsal_room.testing.settling import check_marks

        check_marks(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Decide the claims of a test that has passed so far."""
    result = yield
    if item.get_closest_marker(_MARK) is not None:
        from rehearsal_room.testing.settling import settle

        settle(item)
    return result


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport,
) -> tuple[str, str, str] | None:
    """An inconclusive test is counted as such."""
    if report.when == "call" and hasattr(report, "wasxfail") and _verdict(report) == "inconclusive":
        return "inconclusive", "?", "INCONCLUSIVE"
    return None


def pytest_terminal_summary(
    terminalreporter: "pytest.TerminalReporter",  # a name that pytest has since 8.4
) -> None:
    """Print what was decided of inconclusive tests; with -v of all tests."""
    reports = [one for found in terminalreporter.stats.values() for one in found]
    decided = [one for one in reports if isinstance(one, pytest.TestReport) and _verdict(one)]
    if terminalreporter.config.option.verbose <= 0:
        decided = [one for one in decided if _verdict(one) == "inconclusive"]
    if decided:
        terminalreporter.section("rehearse")
    for one in decided:
        terminalreporter.write_line(f"{one.nodeid}: {dict(one.user_properties)[_MARK]}")


def _verdict(report: pytest.CollectReport | pytest.TestReport) -> object:
    """What was decided of a test; None: nothing was, or it is not over."""
    if not isinstance(report, pytest.TestReport) or report.when != "call":
        return None
    return dict(report.user_properties).get("rehearse_verdict")
