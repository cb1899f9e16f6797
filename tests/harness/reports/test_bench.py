"""Measuring a run."""

from array import array
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.dialects.awm import Awm
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.policies.openai import OpenAIPolicy, OpenAISettings
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.reports.bench import BenchReport, bare_cpu_s, measure, with_policy
from rehearsal_room.harness.reports.bench_view import render_bench, render_sweep
from rehearsal_room.harness.rollout.meters import Meters, Quantiles, quantiles_of
from rehearsal_room.harness.rollout.plan import EpisodePlan, plan_of
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from tests.support.model_server import ModelServer, Status
from tests.support.run_context import library
from tests.support.terminal import printed


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_quantiles_are_measurements(values: list[float]) -> None:
    """A quantile is one of the values, they are in order, and the last is the greatest."""
    spread = quantiles_of(array("d", values))
    found = [spread.p50, spread.p95, spread.p99, spread.max]
    assert found == sorted(found)
    assert set(found) <= set(values)
    assert spread.max == max(values)


def test_quantiles_of_a_hundred() -> None:
    """Nearest rank, scaled."""
    values = array("d", [number / 1000 for number in range(100, 0, -1)])
    assert quantiles_of(values, scale=1000) == Quantiles(50.0, 95.0, 99.0, 100.0)
    assert quantiles_of(array("d")) == Quantiles(0.0, 0.0, 0.0, 0.0)


async def _played(folder: Path, dialect: Dialect) -> tuple[BenchReport, list[EpisodePlan], Meters]:
    """The report on thirty episodes of the oracle."""
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
    plans = list(plan_of(tasks, episodes=30, group_size=1, seed=0))
    await run_session(folder, plans, parts, concurrency=10, meters=meters)
    report = measure(folder, meters, {"library": pool.world(scenario)}, concurrency=10)
    return report, plans, meters


@pytest.mark.parametrize("dialect", [Native(), Awm()])
async def test_the_report(tmp_path: Path, dialect: Any) -> None:
    """The report counts what the log has; calls that the harness answers itself are not the
    world's."""
    report, plans, meters = await _played(tmp_path, dialect)
    num_calls = sum(len(plan.task.oracle) for plan in plans)
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


async def test_the_traffic_of_a_model_behind_http(tmp_path: Path) -> None:
    """Of a model behind HTTP the report has requests, latencies, tokens, retries, rate limits and
    requests in flight, and shows them in place of the overhead ratio."""
    scenario = library()
    pool, meters = LocalPool(), Meters()
    settings = OpenAISettings("m", api_key="k", longest_wait_s=0.01)
    async with ModelServer() as server:
        server.plan(Status(503), Status(429, headers={"retry-after-ms": "30"}))
        settings = msgspec.structs.replace(settings, base_url=server.url)
        async with OpenAIPolicy(settings) as policy:
            parts = RunParts(
                pool=pool,
                policy=policy,
                dialect=Native(),
                history=parse_history("full"),
                format=FormatSettings(),
                limits=Limits(),
            )
            tasks = [(scenario, task) for task in scenario.tasks]
            plans = plan_of(tasks, episodes=12, group_size=1, seed=0)
            await run_session(tmp_path, plans, parts, concurrency=4, meters=meters)
            statistics = policy.statistics()
    report = with_policy(
        measure(tmp_path, meters, {"library": pool.world(scenario)}, concurrency=4), statistics
    )
    model = report.model
    assert model is not None
    assert (model.requests, model.retries, model.failed, model.rate_limited) == (14, 2, 0, 1)
    assert (model.prompt_tokens, model.completion_tokens) == (12 * 11, 12 * 7)
    assert model.rate_limited_s == pytest.approx(0.03)
    assert model.requests_per_s == pytest.approx(14 / report.wall_s)
    assert model.completion_tokens_per_s == pytest.approx(84 / report.wall_s)
    assert 0 < model.mean_in_flight <= model.max_in_flight <= 4
    assert 0 < model.latency_ms.p50 <= model.latency_ms.p99 <= model.latency_ms.max
    assert report.policy == statistics

    lines = printed(partial(render_bench, report), 80)
    assert any(line.startswith("requests") and "2 retried, 0 failed" in line for line in lines)
    assert any(line.startswith("rate-limited") and "1 response;" in line for line in lines)
    assert any(line.startswith("request, ms") for line in lines)
    assert not any("overhead" in line for line in lines)
    sweep = printed(partial(render_sweep, "temperature", [(0.5, report), (1.0, report)]), 80)
    assert sweep[0].split() == [
        *("temperature", "episodes/s", "requests/s", "p50", "ms", "p99", "ms", "tokens", "out/s"),
        *("429s", "pass"),
    ]
    assert [line.split()[0] for line in sweep[1:]] == ["0.5", "1.0"]


def test_a_policy_in_process_has_an_overhead_ratio(tmp_path: Path) -> None:
    """Without a model behind HTTP the overhead ratio is shown, and no requests."""
    report = with_policy(anyio.run(_played, tmp_path, Native())[0], {"replies": 30.0})
    lines = printed(partial(render_bench, report), 80)
    assert report.model is None
    assert any(line.startswith("overhead ratio") for line in lines)
    assert not any(line.startswith("request") for line in lines)
    sweep = printed(partial(render_sweep, "concurrency", [(1000, report)]), 80)
    assert sweep[0].split()[:4] == ["concurrency", "episodes/s", "calls/s", "ratio"]
    assert sweep[1].split()[0] == "1,000"


def test_bare_calls_change_what_they_should() -> None:
    """The bare calls are the same calls: calls that the world refuses cost time, too, and each
    episode begins in a fresh world."""
    world = LocalPool().world(library())
    pay = ("pay_fine", {"member_id": 2, "amount_cents": 350, "method": "card"})
    unknown = ("no_such_tool", {})
    assert bare_cpu_s([("library", [pay, unknown, pay])] * 20, {"library": world}) > 0
    assert bare_cpu_s([], {"library": world}) == 0.0
