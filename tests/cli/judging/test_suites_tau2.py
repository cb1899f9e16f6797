"""The suites of τ²-bench, on a small checkout in its layout: an agent and a customer who talk."""

import asyncio
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.log.reader import open_reader
from tests.suites.parity.tau2 import main as parity
from tests.support.cli import Rehearse, json_of
from tests.support.judged_runs import served
from tests.support.model_server import Completes, ReceivedRequest
from tests.support.paths import SUITES

CHECKOUT = SUITES / "tau2_checkout"
# A checkout of version 1.0.1, and an interpreter that has its packages; empty: they are not named.
_NAMES = ("REHEARSE_TAU2", "REHEARSE_TAU2_PYTHON")
UPSTREAM = [os.environ[one] for one in _NAMES if all(map(os.environ.get, _NAMES))]


def asked(suite: str, *more: object) -> tuple[object, ...]:
    return ("eval", suite, "--tau2", CHECKOUT, *more)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suite", "tasks", "floor"), [("tau2_retail", 3, 1 / 3), ("tau2_telecom", 2, 0.0)]
)
def test_reference_actions_and_silence(
    rehearse: Rehearse, tmp_path: Path, suite: str, tasks: int, floor: float
) -> None:
    """The reference actions, the customer's among them, have reward 1. Silence has it where the
    only reference write raises."""
    report = json_of(rehearse, *asked(suite, "-p", "oracle", "-o", tmp_path / "run"))
    assert report["scores"] == {suite.removeprefix("tau2_"): 1.0}
    assert (report["tasks"], report["floor"], report["ceiling"]) == (tasks, floor, 1.0)
    replayed = json_of(rehearse, "replay", tmp_path / "run")
    assert (replayed["episodes"], replayed["divergences"]) == (tasks, [])
    mutants = json_of(rehearse, *asked(suite, "-p", "mutant", "-k", 3, "-o", tmp_path / "mutants"))
    assert mutants["scores"][suite.removeprefix("tau2_")] < 1.0


@pytest.mark.slow
def test_records_are_kept_one_by_one(rehearse: Rehearse, tmp_path: Path) -> None:
    """A call's changes are the records that it changed, also new ones and removed ones; searching
    all records changes none."""
    run = tmp_path / "run"
    json_of(rehearse, *asked("tau2_retail", "-p", "oracle", "-o", run))
    with open_reader(run) as reader:
        changes = {
            call.name: [(one.key, one.before is None, one.after is None) for one in result.changes]
            for trajectory in reader.trajectories()
            if trajectory.started.task == "retail_1"
            for step in trajectory.steps
            for call, result in zip(step.executed_calls, step.executed_results, strict=True)
        }
    assert changes == {
        "find_orders": [],
        "add_order": [(("orders", "O40"), True, False)],
        "remove_order": [(("orders", "O5"), False, True)],
    }


@pytest.mark.slow
def test_failures_are_named(rehearse: Rehearse, tmp_path: Path) -> None:
    """The reference actions are the solution with which episodes are compared."""
    run = tmp_path / "run"
    json_of(rehearse, *asked("tau2_retail", "-p", "mutant", "-k", 6, "-o", run))
    found = json_of(rehearse, "failures", run)
    assert found["without_solution"] == 0
    assert found["failed"] == sum(one["failed"]["episodes"] for one in found["tasks"].values()) > 0
    assert {"missing_write", "wrong_record"} <= set(found["kinds"])
    example = found["kinds"]["wrong_record"]["examples"][0]
    assert "order_id" in example["why"] and "(right: 'O" in example["why"]


class Pair:
    """A model server that plays the agent or the customer, by the prompt that it gets."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        """Answer as the one who is asked."""
        body = request.body
        self.bodies.append(body)
        system = str(body["messages"][0]["content"])
        answer = self._customer if system.startswith("You play a customer") else self._agent
        return await answer(body["messages"]).perform(request, writer)

    def _customer(self, messages: list[dict[str, Any]]) -> Completes:
        last = str(messages[-1]["content"])
        if "airplane" in last:
            return Completes(None, (("u1", "toggle_airplane_mode", "{}"),))
        if messages[-1]["role"] == "tool":
            return Completes("It works, thank you. ###STOP###")
        return Completes("My phone has no signal.")

    def _agent(self, messages: list[dict[str, Any]]) -> Completes:
        roles = Counter(message["role"] for message in messages)
        if roles["tool"] == 0:
            return Completes(None, (("c1", "resume_line", '{"line_id": "L1"}'),))
        return Completes("Please switch airplane mode off.")


@pytest.mark.slow
def test_a_model_plays_the_customer(rehearse: Rehearse, tmp_path: Path) -> None:
    """Two models talk at one server. The agent sees neither the scenario nor the customer's tools;
    the customer acts, and ends the talk."""
    both, run = Pair(), tmp_path / "run"
    with served(both) as server:
        models = ("-m", "agent", "--base-url", server.url)
        models += ("--user-model", "customer", "--user-base-url", server.url)
        report = json_of(rehearse, *asked("tau2_telecom", *models, "-o", run))
    assert report["scores"] == {"telecom": 1.0}
    agents = [body for body in both.bodies if body["model"] == "agent" and body.get("tools")]
    customers = [body for body in both.bodies if body["model"] == "customer" and body.get("tools")]
    assert agents and customers
    names = {tool["function"]["name"] for body in agents for tool in body["tools"]}
    assert names == {"get_line", "resume_line"}
    names = {tool["function"]["name"] for body in customers for tool in body["tools"]}
    assert names == {"check_signal", "toggle_airplane_mode"}
    assert {(body["temperature"], body["tool_choice"]) for body in agents} == {(0.0, "auto")}
    assert {(body["temperature"], body["tool_choice"]) for body in customers} == {(0.0, "auto")}
    first = [(one["role"], one["content"]) for one in agents[1]["messages"]]  # 0: the rehearsal
    assert first[0][1].startswith("<instructions>\nYou are a customer service agent")
    assert first[1:] == [
        ("assistant", "Hi! How can I help you today?"),
        ("user", "My phone has no signal."),
    ]
    assert customers[0]["messages"][1:] == [
        {"role": "user", "content": "Hi! How can I help you today?"}
    ]
    assert "Your phone has no signal." in customers[0]["messages"][0]["content"]
    _, out, _ = rehearse("show", run, "e000000")
    assert "user: It works, thank you. ###STOP###" in out


class WrongSide(Pair):
    """The same, where the agent makes the customer's call again and again."""

    def _agent(self, messages: list[dict[str, Any]]) -> Completes:
        return Completes("I do it.", ((f"c{len(messages)}", "toggle_airplane_mode", "{}"),))


@pytest.mark.slow
def test_the_customers_tools_are_not_the_agents(rehearse: Rehearse, tmp_path: Path) -> None:
    """Calls of the customer's tools are refused in upstream's words, do nothing, are not done again
    when the episode is scored and replayed, and the tenth ends the episode."""
    both, run = WrongSide(), tmp_path / "run"
    with served(both) as server:
        models = ("-m", "agent", "--base-url", server.url, "--no-preflight")
        models += ("--user-model", "customer", "--user-base-url", server.url)
        report = json_of(rehearse, *asked("tau2_telecom", *models, "-o", run))
    assert report["scores"] == {"telecom": 0.0}
    texts = [one for body in both.bodies for one in body["messages"] if one["role"] == "tool"]
    assert {one["content"] for one in texts} == {"Error: Tool 'toggle_airplane_mode' not found."}
    with open_reader(run) as reader:
        ended = [one.ended for one in reader.trajectories()]
        changes = [
            result.changes
            for one in reader.trajectories()
            for step in one.steps
            for result in step.executed_results
        ]
    assert {(one.ending, one.error) for one in ended if one} == {
        (Ending.STEP_LIMIT, "10 tool calls failed")
    }
    assert changes == [()] * 10 * report["tasks"]
    assert json_of(rehearse, "replay", run)["divergences"] == []


@pytest.mark.slow
def test_an_evaluation_with_a_customer_goes_on(rehearse: Rehearse, tmp_path: Path) -> None:
    """A whole run that is resumed asks no model again."""
    both, run = Pair(), tmp_path / "run"
    with served(both) as server:
        models = ("-m", "agent", "--base-url", server.url, "--no-preflight")
        models += ("--user-model", "customer", "--user-base-url", server.url)
        first = json_of(rehearse, *asked("tau2_telecom", *models, "-o", run))
        count = len(both.bodies)
        assert json_of(rehearse, *asked("tau2_telecom", *models, "-o", run, "--resume")) == first
        assert len(both.bodies) == count


@pytest.mark.slow
def test_a_model_judges_what_code_cannot(rehearse: Rehearse, tmp_path: Path) -> None:
    """It is asked the suite's own question about the one task with assertions in words, nothing
    about the others, and its answer decides."""
    unmet = [{"expectedOutcome": "The agent is polite.", "metExpectation": False}]
    with served(Completes(json.dumps({"results": unmet}))) as server:
        models = ("--judge", "hybrid", "--judge-model", "m", "--judge-base-url", server.url)
        run = ("-p", "oracle", "-o", tmp_path / "run")
        report = json_of(rehearse, *asked("tau2_retail", *models, *run))
        sent = [one.body for one in server.requests if "response_format" not in one.body]
    assert report["scores"] == {"retail": pytest.approx(2 / 3)}
    question, _ = [
        body for body in sent if "The agent is polite." in json.dumps(body)
    ]  # also of the floor
    assert question.keys() == {"model", "temperature", "messages"}
    assert question["messages"][0]["content"].startswith("assistant: Hi! How can I help you today?")
    with open_reader(tmp_path / "run") as reader:
        labels = {row.task: row.label for row in reader.episodes()}
    assert labels["retail_1"] is not Label.COMPLETED
    assert labels["retail_0"] is Label.COMPLETED
    assert (report["judged_by"]["judge"], report["judged_by"]["episodes"]) == ("hybrid:m", 1)


@pytest.mark.slow
def test_a_score_by_a_model_says_how_far_to_trust_it(rehearse: Rehearse, tmp_path: Path) -> None:
    """Beside the score stands J of the judge, a warning where it may be blind or was not measured,
    and nothing where code alone decided; a file about another judge is refused."""
    met = [{"expectedOutcome": "The agent is polite.", "metExpectation": True}]
    shares = {"value": 1.0, "lower": 0.9, "upper": 1.0}
    j = {"value": 0.2, "lower": -0.1, "upper": 0.5}
    measured = {"tpr": shares, "fpr": shares, "j": j, "unit": "task"}
    with served(Completes(json.dumps({"results": met}))) as server:
        models = ("--judge", "hybrid", "--judge-model", "m", "--judge-base-url", server.url)

        def said(name: str, *more: object) -> str:
            run = ("-p", "oracle", "--category", "retail", "-o", tmp_path / name)
            status, out, err = rehearse(*asked("tau2_retail", *run, *more))
            return out if status == 0 else err

        plain = said("plain", *models)
        assert (
            "WARNING hybrid:m decided on 1 of 3 episodes, and how far it can be trusted is not "
            f"known: label some by hand, measure its J (`rehearse judge study {tmp_path}/plain "
        ) in plain
        file = tmp_path / "study.json"
        file.write_text(json.dumps({"judge": "hybrid:m", "j_against": {"people": measured}}))
        blind = said("blind", *models, "--soundness", file)
        assert "hybrid:m decided on 1 of 3 episodes; its J is 0.200 (-0.100 to 0.500)" in blind
        assert "WARNING the interval of J reaches 0" in blind
        measured["j"] = {"value": 0.8, "lower": 0.6, "upper": 0.9}
        file.write_text(json.dumps({"judge": "hybrid:m", "j_against": {"people": measured}}))
        assert "WARNING" not in said("good", *models, "--soundness", file)
        file.write_text(json.dumps({"judge": "hybrid:other", "j_against": {"people": measured}}))
        refused = said("other", *models, "--soundness", file)
        assert "has J of judge 'hybrid:other', and 'hybrid:m' judges here" in refused
        assert not (tmp_path / "other").exists()  # before anything is played
        assert "--soundness: no model judges" in said("none", "--soundness", file)
        assert "decided on" not in said("code")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("eval", "tau2_retail"), "needs a checkout of τ²-bench: clone https://github.com/"),
        (("eval", "tau2_retail", "--tau2", "nowhere"), "there is no checkout of τ²-bench"),
        (("eval", "tau2_airline", "--tau2", CHECKOUT), "is the checkout complete"),
        (
            (
                "eval",
                "tau2_retail",
                "--tau2",
                CHECKOUT,
                "-m",
                "m",
                "--base-url",
                "http://127.0.0.1:9/v1",
            ),
            "a model plays the user of these tasks: name it with --user-model",
        ),
    ],
)
def test_bad_input_is_one_sentence(
    rehearse: Rehearse, tmp_path: Path, arguments: tuple[object, ...], sentence: str
) -> None:
    """No checkout, an incomplete one, and no model for the customer: status 2."""
    policy = () if "-m" in arguments else ("-p", "oracle")
    more = ("--no-preflight",) if "-m" in arguments else ()
    status, _, err = rehearse(*arguments, *policy, *more, "-o", tmp_path / "run")
    assert (status, sentence in err) == (2, True), err
    assert err.strip().count("\n") == 0


def test_another_version_is_refused(rehearse: Rehearse, tmp_path: Path) -> None:
    """τ²-bench 2 grades otherwise, so its tasks are not scored by the rules of 1.0.1."""
    checkout = tmp_path / "tau2"
    shutil.copytree(CHECKOUT, checkout)
    (checkout / "pyproject.toml").write_text('[project]\nname = "tau2"\nversion = "2.0.0"\n')
    status, _, err = rehearse("eval", "tau2_retail", "--tau2", checkout, "-p", "oracle")
    assert (status, err.strip().count("\n")) == (2, 0), err
    assert "this τ²-bench is 2.0.0, and its scores would not compare with those of 1.0.1" in err


@pytest.mark.slow  # both sides start the package
@pytest.mark.timeout(300)
@pytest.mark.skipif(not UPSTREAM, reason="REHEARSE_TAU2 and REHEARSE_TAU2_PYTHON name no checkout")
def test_what_is_known_to_differ_differs_as_the_table_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Upstream leaves a task with blank arguments out, and here the call has none. Replies that
    were cut off are used, and a task that upstream leaves out has no score on either side."""
    names = ("blank_arguments", "cut_off", "malformed_arguments")
    flags = [word for name in names for word in ("--behaviour", name)]
    checkout = ("--tau2", *UPSTREAM[:1], "--python", *UPSTREAM[1:])
    assert parity([*checkout, "--domain", "retail", "--tasks", "1", "--seed", "4", *flags]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "solved upstream" in line]
    assert [line.partition(", requests")[0] for line in lines] == [
        "retail blank_arguments: cases 1, solved upstream 0, solved here 0, left out upstream 1, "
        "differ 0, reward 1",
        "retail cut_off: cases 1, solved upstream 1, solved here 1, left out upstream 0, differ 0",
        "retail malformed_arguments: cases 1, solved upstream 0, solved here 0, "
        "left out upstream 1, differ 0",
    ]
