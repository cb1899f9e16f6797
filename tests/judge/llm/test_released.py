"""The judge of Agent World Model's released code, beside ours. `just parity awm` compares it with
the original; here are its parts, and what it may not do to our verdict."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rehearsal_room.envpool.core.remote_states import Verified
from rehearsal_room.envpool.core.types import StoredState, ToolResult
from rehearsal_room.harness.core.errors import BudgetExhausted
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    Judged,
    Label,
    ModelJudgement,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, FormatError, Reply
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.llm.released import (
    ReleasedJudge,
    question_of,
    read_answer,
    released_trajectory,
)
from rehearsal_room.judge.llm.verdict_cache import VerdictCache
from rehearsal_room.scenarios.awm.folder import AwmFolder
from rehearsal_room.scenarios.format import Scenario, Task
from tests.support.episode_logs import started
from tests.support.paths import AWM

LIST = '<tool_call>{"name": "list_tools", "arguments": null}</tool_call>'
_CALL = '{"name": "call_tool", "arguments": {"tool_name": "get", "arguments": {}}}'
GET = f"<tool_call>{_CALL}</tool_call>"
STEPS = (
    StepTaken(Reply(LIST), Act((AgentCall("list_tools", {}, "c0-0"),)), (ToolResult("tools"),)),
    StepTaken(
        Reply("?" + GET), Act((AgentCall("get", {}, "c1-0"),)), (ToolResult("no", "refused"),)
    ),
    StepTaken(Reply("Done."), Answer("Done.")),
)


@pytest.fixture
def anyio_backend() -> str:
    """The cache's library runs on asyncio alone."""
    return "asyncio"


OURS = Judged("code", Label.AGENT_ERROR, 0.0, (0.0,) * 3)


def test_steps_are_written_as_the_released_agent_writes_them() -> None:
    """Its keys in its order, calls as the model wrote them, results as it showed them."""
    assert released_trajectory(STEPS) == [
        {
            "iteration": 1,
            "role": "assistant",
            "content": LIST,
            "tool_calls": [{"id": "call_1_0", "name": "list_tools", "arguments": None}],
            "tool_response": {"tool_call_id": "call_1_0", "content": "tools"},
        },
        {
            "iteration": 2,
            "role": "assistant",
            "content": "?" + GET,
            "tool_calls": [
                {
                    "id": "call_2_0",
                    "name": "call_tool",
                    "arguments": {"tool_name": "get", "arguments": {}},
                }
            ],
            "tool_response": {"tool_call_id": "call_2_0", "content": "Error: no"},
        },
        {
            "iteration": 3,
            "role": "assistant",
            "content": "Done.",
            "tool_calls": [],
            "is_final": True,
        },
    ]
    text = question_of("Do it.", released_trajectory(STEPS[2:]), {"a": [1, "ä"]})
    assert text.startswith(
        'task_json:\n{\n  "user_task": "Do it.",\n  "actual_execution_steps": 1,'
    )
    assert text.endswith(
        'verification_json:\n{\n  "code_execution_result": {\n    "a": [\n      1,\n      "ä"\n'
        "    ]\n  }\n}"
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"classification": " Complete ", "reasoning": "x"}', "complete"),
        ('I think {"classification": "incomplete"} fits', "incomplete"),
        ('{"classification": "judge_error"}', "judge_error"),
        ('{"classification": "completed"}', "judge_error"),
        ('{"classification": null}', "judge_error"),
        ('[{"classification": "complete"}]', "judge_error"),
        ('{"classification": "complete"} {"classification": "complete"}', "judge_error"),
        ("complete", "judge_error"),
        ("{}", "judge_error"),
        ("", "judge_error"),
        ("[" * 100_000, "judge_error"),
    ],
)
def test_an_answer_is_read_once(text: str, found: str) -> None:
    """What has no class that can be read is `judge_error`, and never another class."""
    assert read_answer(text)[0] == found


class Own:
    """Our judge: always the same verdict."""

    name = "code"

    def suspends(self, trajectory: Trajectory) -> bool:
        return False

    async def verdict(self, trajectory: Trajectory) -> Judged:
        return OURS


class Model:
    """A judge's model with one answer; it counts the questions."""

    name = "j"

    def __init__(self, answer: str | BudgetExhausted | None) -> None:
        self.answer = answer
        self.asked: list[list[dict[str, str]]] = []

    async def ask_released(
        self, messages: list[dict[str, str]]
    ) -> tuple[str | None, ModelJudgement]:
        self.asked.append(messages)
        if isinstance(self.answer, BudgetExhausted):
            raise self.answer
        fault = "" if self.answer is not None else "status 500"
        return self.answer, ModelJudgement("j", None, fault, requests=1, cost_usd=0.5)


class Verifiers:
    """A pool whose verifiers return the same; other parts of it are not used."""

    def __init__(self, **verified: Any) -> None:
        self._verified = Verified(0, **verified)

    async def verify(
        self, scenario: Scenario, task: Task, state: StoredState, answer: str, which: str = "code"
    ) -> Verified:
        assert (which, answer) == ("sql", "")
        return self._verified

    def lease(self, scenario: Scenario, task: Task | None = None) -> Any:
        raise AssertionError("nothing is played")


async def judged(
    path: Path, model: Model, *, pool: Verifiers | None = None, **ended: Any
) -> Judged:
    scenario = AwmFolder(AWM).find("e_commerce_lab_1")
    began = msgspec.structs.replace(
        started(),
        dialect=ended.get("dialect", "awm-release"),
        scenario=scenario.name,
        task="0",
        scenario_digest=scenario.digest,
    )
    end = EpisodeEnded(Ending.ANSWERED, "Done.", 3, StoredState("t", {}, 1, "d"))
    end = msgspec.structs.replace(
        end, **{k: v for k, v in ended.items() if k not in ("steps", "dialect")}
    )
    trajectory = Trajectory("e0", 1, began, ended.get("steps", STEPS), end, ())
    async with VerdictCache(path) as cache:
        judge = ReleasedJudge(
            Own(),
            model,
            pool=pool or Verifiers(detail={"met": True}),
            scenarios=[scenario],
            prompt="You judge.",
            cache=cache,
            name="code",
            concurrency=1,
            backlog=1,
        )
        return await judge.verdict(trajectory)


@pytest.mark.parametrize(
    ("name", "reward"),
    [("complete", 1.0), ("incomplete", 0.1), ("server_error", 0.0), ("agent_error", 0.0)],
)
async def test_the_class_stands_beside_our_verdict(
    tmp_path: Path, name: str, reward: float
) -> None:
    """With OpenEnv's reward; our label and reward stay, whatever the model claims, and the
    second judging asks nothing."""
    model = Model(json.dumps({"classification": name, "reasoning": "so"}))
    found = await judged(tmp_path / "v.sqlite", model)
    again = await judged(tmp_path / "v.sqlite", model)

    assert found.profile is not None and again.profile is not None
    assert (found.profile.classification, found.profile.reward) == (name, reward)
    assert found.cost_usd == 0.5
    assert msgspec.structs.replace(found, profile=None, cost_usd=0.0) == OURS
    assert (again.profile.classification, again.profile.reward) == (name, reward)
    assert (len(model.asked), again.cost_usd) == (1, 0.0)
    assert model.asked[0][0] == {"role": "system", "content": "You judge."}


@pytest.mark.parametrize(
    ("pool", "ended", "found", "num_asked"),
    [
        (Verifiers(fault="it raised"), {}, "judge_error", 0),
        (Verifiers(violation="it opened a file"), {}, "judge_error", 0),
        (None, {"ending": Ending.POLICY_ERROR, "error": "status 500"}, "", 0),
        (None, {"state": None}, "", 0),
        (None, {"dialect": "native"}, "", 0),
        (
            None,
            {
                "steps": (
                    StepTaken(
                        Reply('<tool_call>{"name": null}</tool_call>'), FormatError("it stops")
                    ),
                )
            },
            "",
            0,
        ),
        (None, {"ending": Ending.STEP_LIMIT}, "complete", 1),
    ],
)
async def test_some_episodes_are_not_asked_about(
    tmp_path: Path, pool: Verifiers | None, ended: dict[str, Any], found: str, num_asked: int
) -> None:
    """A verifier that fails is `judge_error`; an episode of which the released code has no result
    has no class and no reward."""
    model = Model('{"classification": "complete"}')
    verdict = (await judged(tmp_path / "v.sqlite", model, pool=pool, **ended)).profile

    assert verdict is not None
    assert (verdict.classification, len(model.asked)) == (found, num_asked)
    assert (verdict.reward is None) == (found == "")
    assert bool(verdict.reason) == (found != "complete")


@pytest.mark.parametrize(
    ("answer", "found"), [(None, "judge_error"), (BudgetExhausted("nothing is left"), "")]
)
async def test_a_model_that_gives_no_answer_pays_nothing(
    tmp_path: Path, answer: BudgetExhausted | None, found: str
) -> None:
    """A server that fails is `judge_error`; where the budget is used up, nobody was asked."""
    verdict = (await judged(tmp_path / "v.sqlite", Model(answer))).profile
    assert verdict is not None
    assert (verdict.classification, verdict.reward or 0.0) == (found, 0.0)
