"""What a run took of its model: requests, tokens, time and money, wherever a user looks.

The server is ours; it reports usage with the details that OpenAI's has.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Rehearse, json_of
from tests.support.judged_runs import no_environment, served
from tests.support.model_server import Body, Completes, ReceivedRequest, Status

TASK = "shop_support:address-to-parents"
USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 50,
    "prompt_tokens_details": {"cached_tokens": 800},
    "completion_tokens_details": {"reasoning_tokens": 20},
}
COUNTS = (
    "6 requests for 4 replies (2 retries, 0.1 s of waits after rate limits), 4,000 tokens in (3,200"
    " cached), 200 out (80 of reasoning)"
)
TIMES = "replies took "


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_environment(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


class Limited:
    """Refuses the first of three requests."""

    def __init__(self) -> None:
        self._num = 0

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        self._num += 1
        if self._num % 3 == 1:
            return await Status(429, headers={"Retry-After": "0.05"}).perform(request, writer)
        answer: dict[str, Any] = Completes("I cannot help.").completion() | {"usage": USAGE}
        return await Body(json.dumps(answer).encode()).perform(request, writer)


def lines_of(text: str) -> list[str]:
    lines = text.splitlines()
    first = next(index for index, line in enumerate(lines) if " requests for " in line)
    assert lines[first + 1].strip().startswith(TIMES)
    return [lines[first].strip(), lines[first + 1].strip()]


def test_requests_tokens_times_and_cost_are_shown(rehearse: Rehearse) -> None:
    """By `run`, `show` and `compare`, and in both reports; the cost follows from a file of prices,
    the run's or another one. report.json has no times."""
    for name, price in (("p.toml", 1.0), ("q.toml", 2.0)):
        table = f"[models.m]\ninput = {price}\noutput = 10.0\ncached_input = 0.1\n"
        Path(name).write_text(table)
    with served(Limited()) as server:
        model = ("-p", "openai", "-m", "m", "--base-url", server.url, "-n", 4, "-c", 1)
        status, out, _ = rehearse("run", TASK, *model, "-o", "r", "--prices", "p.toml")
        assert status == 0
        plain = json_of(rehearse, "run", TASK, *model, "-o", "plain")
    cost = 4 * (200 * 1.0 + 800 * 0.1 + 50 * 10.0) / 1e6
    priced = f"{COUNTS}; {cost:.4f} USD"
    assert lines_of(out)[0] == priced
    assert lines_of(rehearse("show", "r")[1])[0] == priced
    assert lines_of(rehearse("show", "r", "--prices", "q.toml")[1])[0].endswith("; 0.0039 USD")
    assert lines_of(rehearse("compare", "r", "plain")[1])[0] == priced
    saved = json.loads(Path("r/report.json").read_bytes())
    assert saved["model"] == {
        "replies": 4,
        "requests": 6,
        "retries": 2,
        "prompt_tokens": 4000,
        "cached_tokens": 3200,
        "completion_tokens": 200,
        "reasoning_tokens": 80,
        "cost_usd": pytest.approx(cost),
    }
    assert saved["reply_times"] is None
    assert plain["model"] == saved["model"] | {"cost_usd": None}
    assert 0.09 <= plain["reply_times"]["rate_limited_s"] < 5
    assert 0 < plain["reply_times"]["p50_s"] <= plain["reply_times"]["p99_s"]


def test_each_task_has_its_tokens_cost_and_time(rehearse: Rehearse) -> None:
    """In `run --json`, in report.json (but for the times), in the full list of `show`, and of each
    episode in an export; what a task took is what its episodes took."""
    Path("p.toml").write_text("[models.m]\ninput = 1.0\noutput = 10.0\ncached_input = 0.1\n")
    with served(Limited()) as server:
        model = ("-p", "openai", "-m", "m", "--base-url", server.url, "-c", 1, "-n", 6, "-g", 3)
        found = json_of(rehearse, "run", "shop_support", *model, "-o", "r", "--prices", "p.toml")
    cost = (200 * 1.0 + 800 * 0.1 + 50 * 10.0) / 1e6
    assert [one["episodes"] for one in found["tasks"]] == [3, 3]
    for one in found["tasks"]:
        number = one["episodes"]
        assert one["prompt_tokens"] == 1000 * number and one["cached_tokens"] == 800 * number
        assert (one["completion_tokens"], one["turns"]) == (50 * number, 1.0)
        assert one["cost_usd"] == pytest.approx(cost * number)
        assert one["seconds"] > 0
    saved = json.loads(Path("r/report.json").read_bytes())
    assert saved["tasks"] == [one | {"seconds": None} for one in found["tasks"]]
    _, shown, _ = rehearse("show", "r", "--full")
    cells = [line.split() for line in shown.splitlines() if line.startswith("  ")]
    for one in found["tasks"]:
        (row,) = [line for line in cells if line[0] == one["task"]]
        assert "1,050" in row and f"{one['cost_usd']:.4f}" in row
    assert rehearse("export", "r", "--to", "jsonl", "-o", "r.jsonl")[0] == 0
    lines = [json.loads(line) for line in Path("r.jsonl").read_text().splitlines()]
    for line in lines:
        tokens = [line[name] for name in ("prompt_tokens", "cached_tokens", "completion_tokens")]
        assert tokens == [1000, 800, 50] and line["seconds"] > 0


def test_a_policy_without_a_model_took_nothing(rehearse: Rehearse) -> None:
    """No line is about requests, and the report has none."""
    status, out, _ = rehearse("run", TASK, "-o", "r")
    assert (status, " requests for " in out) == (0, False)
    assert json.loads(Path("r/report.json").read_bytes())["model"] is None
    status, _, err = rehearse("run", TASK, "--prices", "none.toml", "-o", "x")
    assert status == 2 and "none.toml" in err
