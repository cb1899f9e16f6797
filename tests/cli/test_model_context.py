"""A world whose first prompt a model's context has no room for.

The server is ours; its refusal is worded as vLLM's.
"""

import json
from pathlib import Path

import pytest

from tests.support.cli import Rehearse
from tests.support.judged_runs import no_environment, served
from tests.support.model_server import Status


def test_a_first_prompt_that_is_too_long_is_no_error_of_the_agent(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said once in the run, and at the end with the largest of the worlds; no episode has a
    verdict, and the exit status says that the run shows nothing."""
    no_environment(monkeypatch)
    monkeypatch.chdir(tmp_path)
    says = "This model's maximum context length is 512 tokens, however you requested 5120 tokens"
    with served(Status(400, says)) as server:
        model = ("-p", "openai", "-m", "m", "--base-url", server.url)
        worlds = ("claims_desk", "shop_support")
        status, out, err = rehearse("run", *worlds, *model, "-n", 4, "-o", "r")
    assert status == 1
    assert err.count("first_prompt_too_long") == 1
    assert "4 model failures: the first prompt does not fit into the model's context" in out
    report = json.loads(Path("r/report.json").read_bytes())
    assert report["labels"] == {}
    line = report["first_prompts"]
    assert line in " ".join(out.split("\n"))
    assert "in 4 episodes, which say nothing about the agent: the largest world is " in line
    assert "the server says: status 400: This model's maximum context length is 512" in line
