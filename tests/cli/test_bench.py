"""The command `bench` with a model behind HTTP."""

from pathlib import Path

import pytest

from tests.support.cli import Rehearse
from tests.support.judged_runs import served
from tests.support.model_server import Completes, Status


@pytest.mark.slow
def test_a_model_is_measured_and_its_run_is_kept(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report has requests, tokens, retries and latencies instead of an overhead ratio, and the
    run folder stays, for `show`; without a model nothing is left."""
    monkeypatch.chdir(tmp_path)
    with served(Completes("I cannot help with that.")) as server:
        model = ("-p", "openai", "-m", "m", "--base-url", server.url)
        status, out, err = rehearse("bench", "shop_support", *model, "-n", 6, "-c", 2)
    assert status == 0, err
    assert out.splitlines()[0] == "run folder runs/shop_support-openai-1"
    for row in ("requests", "tokens in", "tokens out", "in flight", "rate-limited", "request, ms"):
        assert f"\n{row} " in out
    assert "overhead ratio" not in out
    assert rehearse("show", "runs/shop_support-openai-1")[0] == 0
    status, out, _ = rehearse("bench", "shop_support", "-n", 6)
    assert (status, "overhead ratio" in out, "run folder" in out) == (0, True, False)
    assert [path.name for path in Path("runs").iterdir()] == ["shop_support-openai-1"]


@pytest.mark.slow
def test_retries_and_rate_limits_are_logged_with_v(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-v` has a line for each pause that a rate limit asks for and for each retry; without it
    there is none."""
    monkeypatch.chdir(tmp_path)
    with served(Completes("no")) as server:
        run = ("run", "shop_support", "-p", "openai", "-m", "m", "--base-url", server.url, "-n", 1)
        limited = Status(429, headers={"Retry-After": "0"})
        server.plan(limited)
        assert rehearse(*run, "--dialogue")[::2] == (0, "")
        server.plan(limited, Status(500))
        status, _, err = rehearse("-v", *run)
    assert status == 0
    assert "rate_limited" in err
    assert "request_retried" in err
