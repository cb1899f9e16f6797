"""What the model was sent, against the bytes that an endpoint received.

The endpoint (tests.support.recording_model) is ours and has no model. In half of the cases the
client is the openai package, which we did not write; then messages and tools are compared, since
the package writes the bytes.
"""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import run_process, to_thread

from rehearsal_room.harness.core.events import HistorySummarized
from rehearsal_room.harness.core.token_bytes import decode_ids
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.setup.run_trust import RUN_FILE
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.learner.data.alignment import Alignment
from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support import tiny_model
from tests.support.criteria_world import AGENTS, CRITERIA, criteria_world, script
from tests.support.recording_model import RecordingModel, call_of, recording_model
from tests.support.viewer_client import Client, played, viewing

TASK = "shop_support:cancel-duplicate"
DIALOGUE = "shop_support:ask-which-size"
_NATIVE = (
    {**call_of("get_order", '{"order_id": 4123}'), "reasoning_details": [{"text": "hm"}]},
    call_of("get_order", '{"order_id": 41', "call_2"),  # no JSON: a format error
    {"content": "Which size would Marcus like, and does the colour stay?"},
    call_of("no_such_tool", "{}", "call_1"),
    call_of("get_order", '{"order_id": 1}', "call_1"),
    {"content": "I have done \u202e nothing."},
)
_BLOCK = '<tool_call>\n{"name": "get_order", "arguments": {"order_id": %d}}\n</tool_call>'
_HERMES = (
    {"content": _BLOCK % 4123},
    {"content": "<tool_call>\n{bad</tool_call>"},
    {"content": "Which size would Marcus like, and does the colour stay?"},
    {"content": _BLOCK % 1},
    {"content": "I have done nothing."},
)
_CASES = [
    # history, dialect, client, task
    ("full", "native", "lean", DIALOGUE),
    ("last:2", "native", "package", DIALOGUE),
    ("last:1+1", "hermes", "lean", DIALOGUE),
    ("summary:1", "native", "lean", DIALOGUE),
    ("summary:1", "hermes", "package", DIALOGUE),
    ("retrieve:1", "native", "lean", DIALOGUE),
    ("tokens:1", "hermes", "package", DIALOGUE),
    ("full", "awm", "lean", TASK),
]


async def _sent(client: Client, run: Path, episode: str = "e000000") -> list[Any]:
    """The requests of all turns, as the page gets them."""
    with open_reader(run) as reader:
        num = len(reader.trajectory(episode).steps)
    base = f"/api/runs/{run_id(run)}/episodes/{episode}/sent?turn="
    return [await client.get(f"{base}{turn}") for turn in range(num)]


async def _model_run(folder: Path, model: RecordingModel, task: str, **flags: Any) -> Path:
    given = {"model": "m", "base_url": model.url, "temperature": 0.25, "max_tokens": 99, **flags}
    return await _run(folder, task, max_steps=6, seed=7, judge="none", format_stop=False, **given)


async def _run(folder: Path, *tasks: str, **flags: Any) -> Path:
    """A run, which has an event loop of its own."""
    return await to_thread.run_sync(partial(played, folder, *tasks, **flags))


@pytest.mark.parametrize(("history", "dialect", "client_name", "task"), _CASES)
async def test_every_turn_shows_the_request_as_it_was_sent(
    tmp_path: Path, history: str, dialect: str, client_name: str, task: str
) -> None:
    """Equal byte for byte where we write the bytes, equal in messages, tools and fields where the
    openai package does: under windows, with summaries, in a talk with a user, after a format
    error, a server that is busy and one that refuses a field, and with fields that go back."""
    replies = _NATIVE if dialect == "native" else _HERMES
    with recording_model(replies=replies, refuses=frozenset({"seed"}), busy=1) as model:
        flags = {"history": history, "dialect": dialect, "client": client_name}
        run = await _model_run(tmp_path / "run", model, task, **flags)
    with open_reader(run) as reader:
        trajectory = reader.trajectory("e000000")
    assert len(trajectory.steps) > 2
    assert any(type(one.decision).__name__ == "FormatError" for one in trajectory.steps)
    assert any(one.user for one in trajectory.steps) or task == TASK
    async with viewing(run) as client:
        turns = await _sent(client, run)

    assert {turn["missing"] for turn in turns} == {""}
    shown = [request for turn in turns for request in turn["requests"]]
    sent = model.answered
    kinds = [
        "summary" if isinstance(one, HistorySummarized) else "turn" for one in trajectory.replies()
    ]
    assert [request["what"] for request in shown] == kinds
    assert ("summary" in kinds) == history.startswith("summary")
    if client_name == "lean":
        assert [request["body"].encode() for request in shown] == sent
    assert [json.loads(request["body"]) for request in shown] == list(map(json.loads, sent))
    for request, data in zip(shown, sent, strict=True):
        body = json.loads(data)
        assert [one["message"] for one in request["messages"]] == body["messages"]
        assert request["tools"] == body.get("tools", [])
        assert "seed" not in request["fields"]
    if history == "full":
        assert not any(request["left_out"] for request in shown)
    else:
        _check_left_out(shown, sent)


def _check_left_out(shown: list[Any], sent: list[bytes]) -> None:
    """What a window leaves out is what the window of a later or earlier turn has shown, and is not
    in this one."""
    everything = [_alike(one) for data in sent for one in json.loads(data)["messages"]]
    left_out = [turn for request in shown for turn in request["left_out"]]
    assert left_out
    for turn in left_out:
        assert all(_alike(one["message"]) in everything for one in turn["messages"][:1])
    for request in shown:
        present = [_alike(one["message"]) for one in request["messages"]]
        for turn in request["left_out"]:
            assert _alike(turn["messages"][0]["message"]) not in present


def _alike(message: dict[str, Any]) -> dict[str, Any]:
    """A message without the ids of its calls, which are unique in each request."""
    calls = message.get("tool_calls")
    return {**message, "tool_calls": calls and [one["function"] for one in calls]}


async def test_a_fork_shows_its_own_requests_and_names_the_run_of_the_others(
    tmp_path: Path,
) -> None:
    """After kept turns and one that was written by hand, with another instruction: the requests of
    its own turns are those that were sent."""
    with recording_model(replies=_NATIVE) as model:
        origin = await _model_run(tmp_path / "origin", model, DIALOGUE)
        model.answered.clear()
        call = {"name": "get_order", "arguments": {"order_id": 1}, "result": "gone"}
        turn = {"text": "Hm.", "calls": [call]}
        edit = json.dumps({"instruction": "Other.", "turns": [turn]})
        fork = await _model_run(
            tmp_path / "fork", model, DIALOGUE, forked_from=f"{origin}/e000000@1", edit=edit
        )
    async with viewing(fork) as client:
        turns = await _sent(client, fork)

    assert "origin/e000000" in turns[0]["missing"]
    assert "by hand" in turns[1]["missing"]
    shown = [one["body"].encode() for turn in turns[2:] for one in turn["requests"]]
    assert shown == model.answered[1:]  # the first one tried the server before the run
    messages = json.loads(shown[0])["messages"]
    assert "Other." in messages[1]["content"]
    assert [one["content"] for one in messages if one["role"] == "tool"][-1] == "gone"
    assert any("depends on what the server had sent" in str(turn) for turn in turns[2:])


async def test_the_curl_command_sends_the_request_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run by bash with curl, which we did not write: the same body, and the key of the environment,
    whose value is nowhere in the answer."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    call = call_of("get_order", '{"order_id": 1}')
    odd = "It's `$HOME` and 'quotes' \\ \nEND_OF_REQUEST\n"
    replies = ({**call, "content": odd}, {"content": "Bye."})
    with recording_model(replies=replies) as model:
        run = await _model_run(tmp_path / "run", model, DIALOGUE)
        async with viewing(run) as client:
            turns = await _sent(client, run)
        request = turns[1]["requests"][0]
        assert "sk-very-secret" not in json.dumps(turns)
        assert "$OPENAI_API_KEY" in request["curl"]
        done = await run_process(
            ["bash", "-c", request["curl"]], env={**os.environ, "no_proxy": "*"}
        )
        assert json.loads(done.stdout)["object"] == "chat.completion"
    assert model.answered[-1].strip() == model.answered[1]
    assert model.keys[-1] == "Bearer sk-very-secret"


async def test_what_cannot_be_written_again_is_said(mutants: Path, tmp_path: Path) -> None:
    """A run of somebody else sends no key; without run.toml, with another model's name, by a policy
    that asks no model or under an unknown window, a sentence says what is missing, and messages and
    tools are there as far as they are known."""
    with recording_model(replies=_NATIVE) as model:
        run = await _model_run(tmp_path / "run", model, DIALOGUE)
    settings = (run / RUN_FILE).read_text()
    async with viewing(run, mutants) as client:
        (run / RUN_FILE).write_text(settings.rpartition("# begun")[0] + "# other\n")
        stranger = (await _sent(client, run))[0]
        (run / RUN_FILE).write_text(settings.replace('name = "m"', 'name = "n"'))
        other = (await _sent(client, run))[0]
        (run / RUN_FILE).unlink()
        alone = (await _sent(client, run))[0]
        no_model = (await _sent(client, mutants))[0]
        late = await client.get(f"/api/runs/{run_id(run)}/episodes/e000000/sent?turn=99")

    first = json.loads(model.answered[0])
    assert "OPENAI_API_KEY" not in stranger["requests"][0]["curl"]
    assert "sends no key" in stranger["requests"][0]["notes"][0]
    assert "run.toml names 'n'" in other["missing"]
    assert "no run.toml" in alone["missing"]
    assert "asks no model" in no_model["missing"]
    assert late["requests"] == []
    for one in (other, alone):
        (request,) = one["requests"]
        assert [message["message"] for message in request["messages"]] == first["messages"]
        assert request["tools"] == first["tools"]
        assert request["body"] == request["curl"] == ""


@pytest.mark.parametrize("mode", ["llm", "hybrid"])
async def test_a_judge_is_shown_with_the_prompt_that_it_got(tmp_path: Path, mode: str) -> None:
    """Byte for byte, live and from the log, where code left the label open."""
    opinion = {"reasoning": "r", "label": "agent_error", "confidence": 1, "leaned_on": ["A"]}
    replies = ({"content": json.dumps(opinion)},)
    with recording_model(replies=replies) as model:
        flags = {"judge": mode, "judge_models": ("m",), "judge_base_url": model.url}
        run = await _run(tmp_path / "run", TASK, DIALOGUE, policy="noop", seed=3, **flags)
    async with viewing(run) as client:
        with open_reader(run) as reader:
            episodes = [row.episode for row in reader.episodes()]
        bodies = []
        for episode in episodes:
            found = await client.get(f"/api/runs/{run_id(run)}/episodes/{episode}/sent/judge")
            assert found["missing"] == ""
            bodies += [request["body"].encode() for request in found["requests"]]

    assert sorted(bodies) == sorted(model.answered)
    assert len(bodies) == 2


_VERDICTS = ("completed", "partially_completed", "agent_error")


@pytest.mark.parametrize("models", [("m",), ("m", "n")])
@pytest.mark.parametrize("verdict", [*_VERDICTS, "environment_error", "gibberish"])
async def test_a_question_about_a_criterion_is_shown_as_it_was_sent(
    tmp_path: Path, verdict: str, models: tuple[str, ...]
) -> None:
    """Byte for byte, whatever the models said of two criteria and whether it could be used; the
    page names the criterion. Where nobody was asked, it says so."""
    more = CRITERIA + CRITERIA[CRITERIA.rindex("[[task") :].replace("says when", "says more")
    world = criteria_world(tmp_path, more)
    opinion = {"reasoning": "r", "label": verdict, "confidence": 1, "leaned_on": ["A", "D1"]}
    text = "What?" if verdict == "gibberish" else json.dumps(opinion)
    with recording_model(replies=({"content": text},)) as model:
        flags = {"judge": "hybrid", "judge_models": models, "judge_base_url": model.url}
        plays = {"policy": "scripted", "script": str(script(tmp_path / "script.jsonl"))}
        played_by = {**plays, "group_size": len(AGENTS), "seed": 3}
        run = await _run(tmp_path / "run", str(world), **played_by, **flags)
    async with viewing(run) as client:
        with open_reader(run) as reader:
            verdicts = {one.episode: one.judged[-1] for one in reader.trajectories()}
        shown, num_asked = [], 0
        for episode, judged in verdicts.items():
            found = await client.get(f"/api/runs/{run_id(run)}/episodes/{episode}/sent/judge")
            shown += found["requests"]
            num_asked += len(judged.asked)
            assert found["missing"] == ("" if judged.asked else NOBODY)
    sent = [one for one in model.answered if b"response_format" in one]  # without the first try
    first = [one for one in sent if json.loads(one)["seed"] == 3]  # or again
    assert sorted(request["body"].encode() for request in shown) == sorted(first)
    assert sum(request["attempts"] for request in shown) == len(sent)
    assert (len(sent) > len(first)) == (verdict == "gibberish")
    assert len(shown) == num_asked > 0
    # Where no answer can be used, the first criterion leaves the episode without a label.
    criteria = ("says when", "says more") if verdict in _VERDICTS else ("says when",)
    names = {f"{name} about criterion {of!r}" for name in models for of in criteria}
    assert {request["what"] for request in shown} == names


NOBODY = "No judge asked a model about this episode."


async def test_token_ids_are_shown_as_they_were_logged(tmp_path: Path) -> None:
    """Of each turn the ids of the whole prompt and their text, which are those that training
    computes from the log again."""
    tiny_model.write_tokenizer(tmp_path / "model")
    flags = {"policy": "oracle", "dialect": "hermes", "tokens": str(tmp_path / "model")}
    run = await _run(tmp_path / "run", TASK, history="last:1", **flags)
    with open_reader(run) as reader:
        trajectory = reader.trajectory("e000000")
        worlds = reader.scenarios()
    chat = ChatTokenizer.open(tmp_path / "model")
    alignment = Alignment(parse_history("last:1"), dialect_of("hermes"), chat)
    alignment.use_scenarios(worlds)
    assert alignment.replacement_prompts(trajectory, where="x") is None
    async with viewing(run) as client:
        turns = await _sent(client, run)

    for turn, prompt in zip(turns, trajectory.prompts(), strict=True):
        (request,) = turn["requests"]
        assert request["ids"] == list(decode_ids(prompt))
        assert request["messages"][1]["message"]["content"] in request["ids_text"]
        assert request["curl"] == ""
