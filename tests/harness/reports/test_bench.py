"""Measuring a run."""

from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envpool.inprocess.pool import LocalPool
from harness.dialects.awm import Awm
from harness.dialects.format_rules import FormatSettings
from harness.dialects.native import Native
from harness.history.windows import parse_history
from harness.policies.oracle import OraclePolicy
from harness.reports.bench import bare_cpu_s, measure
from harness.rollout.episode import Limits
from harness.rollout.meters import Meters, Spread, spread_of
from harness.rollout.plan import plan_of
from harness.rollout.session import RunParts, run_session
from judge.verdicts.code_judges import ScenarioJudges
from tests.support.run_context import library


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_quantiles_are_measurements(values: list[float]) -> None:
    """A quantile is one of the values, they are in order, and the last is the greatest."""
    spread = spread_of(array("d", values))
    found = [spread.p50, spread.p95, spread.p99, spread.max]
    assert found == sorted(found)
    assert set(found) <= set(values)
    assert spread.max == max(values)


def test_quantiles_of_a_hundred() -> None:
    """Nearest rank, scaled."""
    values = array("d", [number / 1000 for number in range(100, 0, -1)])
    assert spread_of(values, scale=1000) == Spread(50.0, 95.0, 99.0, 100.0)
    assert spread_of(array("d")) == Spread(0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("dialect", [Native(), Awm()])
async def test_the_report(tmp_path: Path, dialect: Any) -> None:
    """The report counts what the log has; calls that the harness answers itself are not the
    world's."""
    scenario = library()
    tasks = [(scenario, task) for task in scenario.tasks]
    pool, meters = LocalPool(), Meters()
    parts = RunParts(
        pool=pool,
        policy=OraclePolicy(dialect),
        dialect=dialect,
        history=parse_history("full"),
        format=FormatSettings(),
        limits=Limits(),
        judge=ScenarioJudges(pool, [scenario]),
    )
    wanted = list(plan_of(tasks, episodes=30, group_size=1, seed=0))
    await run_session(tmp_path, wanted, parts, concurrency=10, meters=meters)
    report = measure(tmp_path, meters, {"library": pool.world(scenario)}, concurrency=10)
    num_calls = sum(len(plan.task.oracle) for plan in wanted)
    num_openers = len(dialect.opening_calls()) * 30
    assert (report.episodes, report.tool_calls) == (30, num_calls)
    assert report.steps == num_calls + num_openers + 30
    assert (report.endings, report.labels) == ({"answered": 30}, {"completed": 30})
    assert (report.pass_rate, report.unjudged, report.concurrency) == (1.0, 0, 10)
    assert len(meters.leases) == 30
    assert len(meters.calls) == num_calls
    assert len(meters.steps) == report.steps
    assert report.overhead_ratio == report.cpu_s / report.bare_cpu_s > 1
    assert 0 < report.max_live <= 10
    assert report.rss_mb > 1 and report.wall_s > 0


def test_bare_calls_change_what_they_should() -> None:
    """The bare calls are the very calls: those that the world refuses cost time, too, and each
    episode begins anew."""
    world = LocalPool().world(library())
    pay = ("pay_fine", {"member_id": 2, "amount_cents": 350, "method": "card"})
    unknown = ("no_such_tool", {})
    assert bare_cpu_s([("library", [pay, unknown, pay])] * 20, {"library": world}) > 0
    assert bare_cpu_s([], {"library": world}) == 0.0
