"""Conversations of other programs as runs: played again where their world is known."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.interop.exports.chats import chat_of
from tests.support.cli import Rehearse, json_of
from tests.support.paths import LIBRARY

Json = dict[str, Any]
Episodes = dict[str, Json]
TOOL = {
    "type": "function",
    "function": {"name": "ping", "description": "Ping.", "parameters": {"type": "object"}},
}


def _call(name: str, arguments: Json, call_id: str = "a") -> Json:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


CHAT: list[Json] = [
    {"role": "system", "content": "You are brief."},
    {"role": "user", "content": "Ping twice."},
    {"role": "assistant", "content": "First I say something."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [_call("ping", {"n": 1}), _call("ping", {}, "b")],
    },
    {"role": "tool", "tool_call_id": "b", "content": "second"},
    {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "first"}]},
    {"role": "assistant", "content": "Both came."},
    {"role": "user", "content": "Thanks."},
    {"role": "assistant", "content": "Gladly."},
]


@pytest.fixture
def imported(rehearse: Rehearse, tmp_path: Path) -> Callable[..., tuple[Json, Episodes]]:
    """Imports a file of lines; gives the result and the episodes."""

    def make(kind: str, lines: list[Json], *flags: object) -> tuple[Json, Episodes]:
        path, folder = tmp_path / "in.jsonl", tmp_path / "imported"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        result = json_of(rehearse, "import", kind, path, "-o", folder, *flags)
        return result, _episodes(rehearse, folder)

    return make


def _episodes(rehearse: Rehearse, folder: Path) -> Episodes:
    status, _, err = rehearse("export", folder, "--to", "jsonl")
    assert status == 0, err
    lines = (folder / "episodes.jsonl").read_text().splitlines()
    found = {line["episode"]: line for line in map(json.loads, lines)}
    for line in found.values():  # it took another time
        assert line.pop("seconds") > 0
    return found


@pytest.fixture
def mutants(rehearse: Rehearse, tmp_path: Path) -> Path:
    """A run with mistakes, in a dialect whose calls are text."""
    run = tmp_path / "run"
    flags = ("-p", "mutant", "--dialect", "hermes", "--history", "last:2")
    assert rehearse("run", LIBRARY, *flags, "-n", 6, "-o", run)[0] == 0
    return run


@pytest.mark.slow
def test_a_trajectory_is_the_episode_that_it_was(
    rehearse: Rehearse, mutants: Path, tmp_path: Path
) -> None:
    """Exported and imported, episodes are equal in everything but the policy's name; the calls
    replay, and what is exported again is what was read."""
    before = _episodes(rehearse, mutants)
    assert rehearse("export", mutants, "--to", "atif")[0] == 0
    again = tmp_path / "again"
    result = json_of(
        rehearse,
        *("import", "atif", mutants / "trajectories.jsonl", "--scenario", LIBRARY, "-o", again),
    )
    assert (result["episodes"], result["replayed"], result["unknown"]) == (6, 6, [])
    after = _episodes(rehearse, again)
    for name, episode in before.items():
        assert after[name] == episode | {"policy": "imported:mutant"}
    assert rehearse("replay", again)[0] == 0
    judged = json_of(rehearse, "judge", again, "--mode", "code")["labels"]
    assert {label: count for label, count in judged.items() if count} == result["labels"]
    assert rehearse("export", again, "--to", "atif")[0] == 0
    one, other = (
        [json.loads(line)["steps"] for line in _text(folder).splitlines()]
        for folder in (mutants, again)
    )
    for steps, others in zip(one, other, strict=True):
        assert [_bare(step) for step in steps] == [_bare(step) for step in others]


def _text(folder: Path) -> str:
    return (folder / "trajectories.jsonl").read_text()


def _bare(step: Json) -> Json:
    """A step without what depends on when it was played and by whom."""
    return {
        name: value
        for name, value in step.items()
        if name not in ("timestamp", "llm_call_count", "metrics")
    }


def test_forks_keep_their_context(rehearse: Rehearse, tmp_path: Path) -> None:
    """The turns that a fork keeps stay context: they are not learned again."""
    run, fork, again = (tmp_path / name for name in ("run", "fork", "again"))
    assert rehearse("run", LIBRARY, "-n", 1, "-o", run)[0] == 0
    assert rehearse("run", "--from", f"{run}/e000000@2", "-n", 2, "-o", fork)[0] == 0
    assert rehearse("export", fork, "--to", "atif")[0] == 0
    source = fork / "trajectories.jsonl"
    json_of(rehearse, "import", "atif", source, "--scenario", LIBRARY, "-o", again)
    before, after = _episodes(rehearse, fork), _episodes(rehearse, again)
    assert [one["forked_from"] for one in after.values()] == [
        one["forked_from"] for one in before.values()
    ]
    chats = tmp_path / "chats.jsonl"
    assert rehearse("export", again, "--to", "sft", "-o", chats)[0] == 0
    for line in chats.read_text().splitlines():
        replies = [one for one in json.loads(line)["messages"] if one["role"] == "assistant"]
        assert [one.get("weight") for one in replies[:3]] == [0, 0, None]


def test_dialogues_are_imported(rehearse: Rehearse, tmp_path: Path) -> None:
    """What the user says comes from the file, and the verdict is the same."""
    run, again = tmp_path / "run", tmp_path / "again"
    assert rehearse("run", "shop_support:which-boots", "-o", run)[0] == 0
    assert rehearse("export", run, "--to", "atif")[0] == 0
    json_of(rehearse, "import", "atif", run / "trajectories.jsonl", "-o", again)
    (before,), (after,) = (_episodes(rehearse, one).values() for one in (run, again))
    assert after == before | {"policy": "imported:oracle"}
    assert any(step["user"] for step in after["steps"])


def test_chats_of_a_known_world_are_played_again(rehearse: Rehearse, tmp_path: Path) -> None:
    """Our own chats name world and task: they get states, row changes and a verdict again."""
    run, again = tmp_path / "run", tmp_path / "again"
    assert rehearse("run", LIBRARY, "-n", 3, "-o", run)[0] == 0
    assert rehearse("export", run, "--to", "sft")[0] == 0
    chats = run / "sft" / "chats.jsonl"
    result = json_of(rehearse, "import", "chat", chats, "--scenario", LIBRARY, "-o", again)
    assert (result["replayed"], result["labels"]) == (3, {"completed": 3})
    before, after = _episodes(rehearse, run), _episodes(rehearse, again)
    for name, episode in before.items():
        assert after[name]["state_diff"] == episode["state_diff"]
        assert [step["calls"] for step in after[name]["steps"]] == [
            step["calls"] for step in episode["steps"]
        ]


def test_a_chat_of_an_unknown_world_is_kept_as_it_was(
    imported: Callable[..., tuple[Json, Episodes]], rehearse: Rehearse, tmp_path: Path
) -> None:
    """Its calls have the results of the file, by their ids; it has no state and no label; views and
    exports have its messages."""
    result, episodes = imported("chat", [{"messages": CHAT, "tools": json.dumps([TOOL])}])
    (unknown,) = result["unknown"]
    assert unknown["why"] == "neither --scenario nor the file names a world"
    assert unknown["source"].endswith("in.jsonl: line 1")
    assert (result["labels"], result["unjudged"]) == ({}, 1)
    (episode,) = episodes.values()
    acted, spoken, last = episode["steps"]
    assert acted["text"] == "First I say something."
    assert [call["arguments"] for call in acted["calls"]] == [{"n": 1}, {}]
    assert [one["text"] for one in acted["results"]] == ["first", "second"]
    assert (spoken["user"]["text"], last["text"]) == ("Thanks.", "Gladly.")
    assert (episode["ending"], episode["answer"]) == ("answered", "Both came.\n\nGladly.")
    assert (episode["state_diff"], episode["end_digest"], episode["label"]) == ([], "", None)
    folder = tmp_path / "imported"
    assert rehearse("show", folder, episode["episode"])[0] == 0
    assert rehearse("replay", folder)[0] == 0
    assert json_of(rehearse, "judge", folder, "--mode", "code")["unjudged"] == 1
    for to in ("atif", "hf-trace"):
        assert rehearse("export", folder, "--to", to)[0] == 0
    trace = (folder / "hf-trace" / f"{episode['episode']}.jsonl").read_text().splitlines()
    messages = [json.loads(line)["message"] for line in trace[1:]]
    assert [one["role"] for one in messages] == [
        *("system", "user", "assistant", "tool", "tool", "assistant", "user", "assistant")
    ]
    assert messages[0]["content"] == "You are brief."


def test_conversations_about_one_thing_are_tries_of_one_task(
    imported: Callable[..., tuple[Json, Episodes]], rehearse: Rehearse, tmp_path: Path
) -> None:
    """Those with the same tools, system prompt and instruction are one task, and each keeps the
    results and the user of its own file; another instruction, or another tool, is another task."""

    def said(text: str, of: str = "Ping twice.", tool: str = "ping") -> Json:
        chat = json.loads(json.dumps(CHAT).replace("first", text).replace("Ping twice.", of))
        chat[7]["content"] = f"Thanks for {text}."
        tools = json.loads(json.dumps([TOOL]).replace("Ping.", tool))
        return {"messages": chat, "tools": json.dumps(tools)}

    lines = [
        *(said("one"), said("two"), said("three", of="Ping thrice."), said("four", tool="Pong.")),
        *(said("five"), said("six", of="Ping thrice.")),
    ]
    _, episodes = imported("chat", lines)
    tasks: dict[tuple[str, str], list[str]] = {}
    for one in episodes.values():
        text = one["steps"][0]["results"][0]["text"]
        assert one["steps"][1]["user"]["text"] == f"Thanks for {text}."
        tasks.setdefault((one["scenario"], one["task"]), []).append(text)
    folder = tmp_path / "imported"

    assert sorted(tasks.values()) == [["four"], ["one", "two", "five"], ["three", "six"]]
    assert rehearse("replay", folder)[0] == 0


def test_results_that_the_world_does_not_give_make_it_unknown(
    imported: Callable[..., tuple[Json, Episodes]],
) -> None:
    """A conversation that contradicts the named world is not an episode of it; the reason names the
    call."""
    chat = [
        {"role": "user", "content": "What is on the card?"},
        {"role": "assistant", "tool_calls": [_call("get_gift_card", {"code": "LL-8H2P-57TC"})]},
        {"role": "tool", "tool_call_id": "a", "content": "nothing"},
        {"role": "assistant", "content": "Nothing."},
    ]
    result, _ = imported(
        "chat", [{"messages": chat}], "--scenario", "shop_support:gift-card-balance"
    )
    (unknown,) = result["unknown"]
    assert unknown["why"].startswith('call c0-0 (get_gift_card) gives \'{"id":1003')
    assert unknown["why"].endswith("and the file has 'nothing'")


def test_a_chat_without_results_gets_those_of_the_world(
    imported: Callable[..., tuple[Json, Episodes]],
) -> None:
    """Calls without a result in the file are made, and judged."""
    calls = [
        {"role": "assistant", "tool_calls": [_call("get_gift_card", {"code": "LL-8H2P-57TC"})]}
    ]
    chat = [{"role": "user", "content": "…"}, *calls]
    result, episodes = imported(
        "chat", [{"messages": chat}], "--scenario", "shop_support:gift-card-balance"
    )
    (episode,) = episodes.values()
    assert (result["replayed"], episode["ending"]) == (1, "step_limit")
    assert json.loads(episode["steps"][0]["results"][0]["text"])["code"] == "LL-8H2P-57TC"
    assert episode["label"] == "agent_error"


def test_a_foreign_trajectory_is_read(imported: Callable[..., tuple[Json, Episodes]]) -> None:
    """A document of another program has its steps, results in order, tokens and reasoning."""
    document = {
        "schema_version": "ATIF-v1.4",
        "agent": {"name": "coder", "version": "1", "model_name": "gpt", "tool_definitions": [TOOL]},
        "steps": [
            {"step_id": 1, "source": "system", "message": "Be brief."},
            {"step_id": 2, "source": "user", "message": [{"type": "text", "text": "Ping."}]},
            {
                "step_id": 3,
                "source": "agent",
                "message": "",
                "reasoning_content": "hm",
                "tool_calls": [
                    {"tool_call_id": "x", "function_name": "ping", "arguments": {"n": 1}}
                ],
                "observation": {"results": [{"content": "pong"}]},
                "metrics": {"prompt_tokens": 5, "completion_tokens": 2},
            },
            {"step_id": 4, "source": "agent", "message": "Pong."},
        ],
    }
    _, episodes = imported("atif", [document])
    (episode,) = episodes.values()
    assert episode["policy"] == "imported:coder:gpt"
    assert episode["steps"][0]["text"] == "<think>hm</think>"
    assert [one["text"] for one in episode["steps"][0]["results"]] == ["pong"]
    assert episode["answer"] == "Pong."


def test_what_the_environment_said_without_a_call_is_kept(
    imported: Callable[..., tuple[Json, Episodes]],
) -> None:
    """Terminal agents write their commands as text: the observation is what was said to them. With
    calls it follows the last result."""
    seen = {"results": [{"content": "one"}, {"content": "two"}]}
    called = {"tool_calls": [{"tool_call_id": "x", "function_name": "ping", "arguments": {}}]}
    document = {
        "schema_version": "ATIF-v1.6",
        "agent": {"name": "term", "version": "1"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "Which is the largest?"},
            {"step_id": 2, "source": "agent", "message": "du -a /var/log", "observation": seen},
            {"step_id": 3, "source": "agent", "message": "", "observation": seen, **called},
            {"step_id": 4, "source": "agent", "message": "It is zebra."},
        ],
    }
    _, episodes = imported("atif", [document])
    (episode,) = episodes.values()
    written, acted, _ = episode["steps"]
    assert written["user"]["text"] == "one\n\ntwo"
    assert [one["text"] for one in acted["results"]] == ["one\ntwo"]


def test_what_servers_want_back_is_kept(
    imported: Callable[..., tuple[Json, Episodes]], rehearse: Rehearse, tmp_path: Path
) -> None:
    """Signatures and encrypted thoughts of a chat, of its calls and of Anthropic's blocks: in the
    log, and in exports as JSON and as chats, as they came."""
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    signature = {"extra_content": {"google": {"thought_signature": "s"}}}
    blocks = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]
    call = {"id": "t1", "function": {"name": "ping", "arguments": "{}"}, **signature}
    lines: list[Json] = [
        {
            "episode": name,
            "messages": [
                {"role": "user", "content": "Ping."},
                said,
                {"role": "tool", "tool_call_id": "t1", "content": "pong"},
                {"role": "assistant", "content": "Pong."},
            ],
        }
        for name, said in (
            ("details", {"role": "assistant", "reasoning": "Hm.", "reasoning_details": details,
                         "tool_calls": [call]}),
            ("blocks", {"role": "assistant", "content": [
                *blocks, {"type": "tool_use", "id": "t1", "name": "ping", "input": {}}]}),
        )
    ]  # fmt: skip
    _, episodes = imported("chat", lines)
    expected = {"details": {"reasoning_details": details}, "blocks": {"thinking_blocks": blocks}}
    for name, fields in expected.items():
        first = episodes[name]["steps"][0]
        assert (first["text"], first["fields"]) == ("<think>Hm.</think>", fields)
        assert "fields" not in episodes[name]["steps"][1]
    with open_reader(tmp_path / "imported") as reader:
        step = reader.trajectory("details").steps[0]
    assert (step.reply.thought, step.reply.calls[0].fields) == ("reasoning", signature)
    with open_reader(tmp_path / "imported") as reader:
        chats = {
            name: chat_of(reader.trajectory(name), *reader.scenarios().values())
            for name in expected
        }
    replies = {
        name: next(one for one in chat["messages"] if one["role"] == "assistant")
        for name, chat in chats.items()
    }
    assert replies["details"]["reasoning_details"] == details
    assert replies["details"]["tool_calls"][0]["extra_content"] == signature["extra_content"]
    assert replies["blocks"]["thinking_blocks"] == blocks


@pytest.mark.parametrize(
    "said",
    [
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm."},
                    {"type": "text", "text": "I ping."},
                    {"type": "tool_use", "id": "t1", "name": "ping", "input": {"n": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "pong"}],
                    }
                ],
            },
        ],
        [
            {
                "role": "assistant",
                "content": "I ping.",
                "reasoning_content": "Hm.",
                "function_call": {"name": "ping", "arguments": '{"n": 1}'},
            },
            {"role": "function", "name": "ping", "content": "pong"},
        ],
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm."},
                    {"type": "text", "text": "I ping."},
                    {"type": "mcp_tool_use", "id": "t1", "name": "ping", "input": {"n": 1}},
                    {
                        "type": "mcp_tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "pong"}],
                    },
                ],
            },
        ],
    ],
    ids=["anthropic", "legacy", "made_by_the_api"],
)
def test_calls_in_other_forms_are_read(
    imported: Callable[..., tuple[Json, Episodes]], said: list[Json]
) -> None:
    """Anthropic's content blocks and the older `function_call`, with the thought in front."""
    asked: Json = {"role": "user", "content": "Ping."}
    lines = [{"messages": [asked, *said, {"role": "assistant", "content": "Pong."}]}]
    _, episodes = imported("chat", lines)
    (episode,) = episodes.values()
    acted, last = episode["steps"]
    assert acted["text"] == "<think>Hm.</think>I ping."
    assert [(one["name"], one["arguments"]) for one in acted["calls"]] == [("ping", {"n": 1})]
    assert [one["text"] for one in acted["results"]] == ["pong"]
    assert last["text"] == episode["answer"] == "Pong."


def test_calls_of_one_id_have_their_own_results(
    imported: Callable[..., tuple[Json, Episodes]],
) -> None:
    """In order. A `function_call` beside `tool_calls` is a call of its own, unless it is the same
    one; a refusal is a text; a result without a call is what the user said."""
    calls = [
        {"id": "a", "function": {"name": name, "arguments": "{}"}} for name in ("ping", "pong")
    ]
    same = {"name": "ping", "arguments": "{}"}
    said = [
        {"role": "user", "content": "Ping."},
        {"role": "assistant", "tool_calls": calls, "function_call": same},
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "a", "content": "two"},
        {"role": "assistant", "tool_calls": calls[:1], "function_call": {"name": "wave"}},
        {"role": "tool", "tool_call_id": "a", "content": "three"},
        {"role": "function", "name": "wave", "content": "four"},
        {"role": "assistant", "content": "$ ls"},
        {"role": "tool", "content": "a.txt"},
        {"role": "assistant", "refusal": "I cannot."},
    ]
    _, episodes = imported("chat", [{"messages": said}])
    (episode,) = episodes.values()
    first, second, third, last = episode["steps"]
    assert [one["text"] for one in first["results"]] == ["one", "two"]
    assert [one["name"] for one in second["calls"]] == ["ping", "wave"]
    assert [one["text"] for one in second["results"]] == ["three", "four"]
    assert third["user"] and "a.txt" in json.dumps(third["user"])
    assert last["text"] == "I cannot."


def test_a_byte_order_mark_is_read(rehearse: Rehearse, tmp_path: Path) -> None:
    """Windows programs write it; a file in UTF-16 is refused with what to do."""
    path = tmp_path / "in.jsonl"
    text = json.dumps({"messages": CHAT}) + "\r\n"
    path.write_bytes(text.encode("utf-8-sig"))
    assert rehearse("import", "chat", path, "-o", tmp_path / "out")[0] == 0
    path.write_bytes(text.encode("utf-16"))
    status, _, err = rehearse("import", "chat", path, "-o", tmp_path / "other")
    assert (status, err) == (2, f"error: {path}: it is UTF-16; save it as UTF-8\n")


_CALLED = (
    '{"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "ping"}}]}'
)


@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        (
            "chat",
            _CALLED + ', {"role": "tool", "tool_call_id": "b"}]}',
            "'b', which is none of",
        ),
        ("chat", _CALLED + ', {"role": "tool"}, {"role": "tool"}]}', "more results than calls"),
        ("chat", "{", "in.jsonl: line 1: Input data was truncated"),
        ("chat", '{"messages": [{"role": "user"}]}', "no message is the assistant's"),
        ("chat", '{"messages": [{"role": "x"}]}', "messages[0].role: expected one of system"),
        ("chat", '{"messages": [{"role": "assistant"}], "tools": "{"}', "line 1: tools: "),
        ("chat", '{"messages": [{"role": "assistant"}], "tools": [7]}', "tools[0]: expected a"),
        ("chat", "", "the file has no conversation"),
        (
            "atif",
            '{"schema_version": "2", "agent": {"name": "a"}, "steps": []}',
            "expected ATIF-v1.0",
        ),
        (
            "atif",
            '{"schema_version": "ATIF-v1.8", "agent": {"name": "a"}, "steps": []}',
            "steps: no step is the agent's",
        ),
        (
            "atif",
            '{"schema_version": "ATIF-v1.8", "agent": {"name": "a"},'
            ' "steps": [{"source": "robot"}]}',
            "steps[0].source: expected system, user or agent, found 'robot'",
        ),
        (
            "atif",
            '{"schema_version": "ATIF-v1.8", "agent": {"name": "a"}, "steps": [{"source": "agent",'
            ' "extra": {"rehearsal": {"sent_calls": [7]}}}]}',
            "Expected `object`, got `int` - at `$.steps[0].extra.rehearsal.sent_calls[0]`",
        ),
        (
            "atif",
            '{"schema_version": "ATIF-v1.8", "agent": {"name": "a"}, "steps": [{"source": "agent",'
            ' "metrics": {"completion_token_ids": [4294967296]}}]}',
            "Expected `int` <= 2147483647",
        ),
    ],
)
def test_bad_files_are_one_sentence(
    rehearse: Rehearse, tmp_path: Path, kind: str, text: str, sentence: str
) -> None:
    """A file that cannot be read is named with line and field, and nothing is written."""
    path = tmp_path / "in.jsonl"
    path.write_text(text)
    status, _, err = rehearse("import", kind, path, "-o", tmp_path / "out")
    assert (status, err.startswith(f"error: {path}"), sentence in err) == (2, True, True), err
    assert not (tmp_path / "out").exists()


def test_a_world_that_the_user_names_must_exist(rehearse: Rehearse, tmp_path: Path) -> None:
    """An unknown scenario or task of --scenario is refused; so is a folder with a run."""
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps({"messages": CHAT}))
    for name in ("no_such_world", "shop_support:no-such-task"):
        status, _, err = rehearse("import", "chat", path, "--scenario", name, "-o", tmp_path / "x")
        assert (status, err.startswith("error: --scenario: ")) == (2, True)
    assert rehearse("import", "chat", path, "-o", tmp_path / "x")[0] == 0
    status, _, err = rehearse("import", "chat", path, "-o", tmp_path / "x")
    assert (status, "a run already exists there" in err) == (2, True)
