"""Run folders and files of a stranger, changed at random: no command runs, no key is sent, no file
is written outside of the output.

    python -m pytest tests/fuzz/test_strangers.py      (a share; REHEARSAL_TEST_PROFILE=long: 1,000)
"""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import tomli_w

from rehearsal_room.harness.log.schema import LOG_NAME, decode_snapshot
from rehearsal_room.scenarios.files import read_toml

HOSTILE_NAMES = ("../../x", "/tmp/rehearse-stranger", "..", "a/b", "x\x00y", "e000000\n", "")
LINKS = (
    *("episodes.jsonl", "report.json", "judge.toml", "verdicts.sqlite", "labels.jsonl"),
    *("hf-trace", "atif", "spans.otlp", "failures.md", "sft.jsonl"),
)


class Lair:
    """What a stranger's files lead to: a program and a package that leave a trace, a server, and
    files of the user that nobody may change."""

    def __init__(self, folder: Path, url: str, program: Path, package: Path) -> None:
        self.url, self.program, self.package = url, program, package
        self.mine = folder / "mine"
        self.mine.mkdir()
        (self.mine / "file").write_text("mine")
        (self.mine / "folder").mkdir()

    def settings(self, rng: Random) -> dict[str, dict[str, Any] | Any]:
        """Some settings that act."""
        command, url = str(self.program), self.url
        return rng.choice(
            [
                {"worlds": {"mcp": command}},
                {"worlds": {"mcp": url}},
                {"worlds": {"mcp": f"{command} x", "mcp_env": ["OPENAI_API_KEY"]}},
                {"worlds": {"openenv": url}},
                {"worlds": {"suite": "bfcl_v3", "suite_python": command}},
                {"worlds": {"suite": "tau2", "suite_path": str(self.package)}},
                {"worlds": {"suite": "mcp_universe", "suite_servers": command}},
                {"worlds": {"pool": url}},
                {"policy": {"name": "openai"}, "model": {"name": "m", "base_url": url}},
                {"policy": {"name": "vllm"}, "model": {"name": "m", "base_url": url}},
                {"user": {"name": "m", "base_url": url}},
                {"judge": {"mode": "llm", "models": ["m"], "base_url": url}},
                {"judge": {"mode": "hybrid", "models": [f"m@{url}"]}},
                {"judge": {"mode": "llm", "models": ["m"], "cache": str(self.mine / "file")}},
                {"bus": {"url": url.replace("http", "mqtt", 1)}},
                {"chaos": str(self.mine / "file")},
                {"cluster": {"engine": "ray", "address": url}},
                {"scenarios": [str(self.package)]},
                {"forked_from": f"{self.mine}/e000000@1"},
                {"policy": {"name": "agent"}, "agent": {"target": command}},
                {"policy": {"name": "agent"}, "agent": {"target": f"{url}/v1"}},
                {"agent": {"target": command, "env": ["OPENAI_API_KEY"]}},
                {"policy": {"name": "local"}, "model": {"name": str(self.mine)}},
                {"policy": {"name": "scripted", "script": str(self.mine / "file")}},
                {"policy": {"name": "replay", "replay": str(self.mine)}},
                {
                    "worlds": {
                        "mcp": [f"a={command}", f"b={url}"],
                        "mcp_header": ["X=OPENAI_API_KEY"],
                    }
                },
                {"worlds": {"suite": "enterpriseops", "suite_tasks": str(self.mine)}},
                {"worlds": {"suite": "agentdojo", "suite_python": command}},
                {"worlds": {"awm": str(self.mine)}},
                {"judge": {"awm_code": str(self.mine), "profile": "awm-release", "models": ["m"]}},
                {"judge": {"mode": "llm", "models": ["m"], "rubric": str(self.mine / "file")}},
                {"bus": {"ca_file": str(self.mine / "file"), "key_file": str(self.mine / "file")}},
                {"exclude": [str(self.mine / "file")]},
                {"model": {"prices": str(self.mine / "file")}},
                {},
            ]
        )

    def is_untouched(self) -> bool:
        """Whether the user's files are as they were."""
        found = {str(path.relative_to(self.mine)) for path in self.mine.rglob("*")}
        return found == {"file", "folder"} and (self.mine / "file").read_text() == "mine"


def changed_run(done: Path, folder: Path, lair: Lair, rng: Random) -> Path:
    """A copy of a finished run with some changes of a stranger."""
    run = folder / "run"
    shutil.copytree(done, run)
    table = read_toml(run / "run.toml")
    for key, value in lair.settings(rng).items():
        table[key] = {**table.get(key, {}), **value} if isinstance(value, dict) else value
    (run / "run.toml").write_text(tomli_w.dumps(table))
    if rng.random() < 0.3:
        judge = {"mode": "llm", "models": ["m"], "base_url": lair.url, "attempts": 1}
        (run / "judge.toml").write_text(tomli_w.dumps(judge))
    if rng.random() < 0.5:
        _change_log(run / LOG_NAME, lair, rng)
    for name in rng.sample(LINKS, 3):
        link = run / name
        if not link.exists():
            link.symlink_to(lair.mine / rng.choice(("file", "folder", "absent")))
    return run


def _change_log(path: Path, lair: Lair, rng: Random) -> None:
    with closing(sqlite3.connect(path)) as database:
        if rng.random() < 0.4:
            name = rng.choice(HOSTILE_NAMES)
            database.execute("UPDATE events SET episode = ? WHERE episode = 'e000000'", (name,))
        for digest, data in database.execute("SELECT * FROM scenarios").fetchall():
            changed = msgspec.structs.replace(
                decode_snapshot(data),
                source_path=rng.choice((str(lair.package), str(lair.mine), "", "shop_support")),
                scenario=rng.choice(("ledger", "shop_support", "../../x")),
            )
            image = rng.random() < 0.2
            if image:
                changed = msgspec.structs.replace(changed, image=changed.image[:5_000])
            row = msgspec.msgpack.encode(changed), digest
            database.execute("UPDATE scenarios SET data = ? WHERE scenario_digest = ?", row)
        database.commit()


def command_on(run: Path, folder: Path, lair: Lair, rng: Random) -> list[object]:
    """A command that reads the run, or a file of conversations."""
    out = folder / "out"
    chats = folder / "chats.jsonl"
    message = {"role": "user", "content": "x"}
    chats.write_text(json.dumps({"scenario": str(lair.package), "messages": [message]}) + "\n")
    recording, document = folder / "recording.jsonl", folder / "openapi.json"
    recording.write_text("".join(json.dumps(one) + "\n" for one in _recorded(lair, rng)))
    document.write_text(json.dumps(_document(lair, rng)))
    made = ("-o", folder / "made")
    gate = folder / "gate.toml"
    gate.write_text('name = "g"\n[[stage]]\nname = "s"\ncriteria = ["completed.lower >= 0.99"]\n')
    commands: list[list[object]] = [
        ["show", run],
        ["show", run, "e000000"],
        ["replay", run],
        ["judge", run],
        ["judge", run, "--judge", "code"],
        ["failures", run],
        ["failures", "blame", f"{run}/e000000", "-n", 1],
        ["failures", "blame", f"{run}/e000001", "-p", "oracle", "-n", 1, "-o", out],
        ["compare", run, run],
        ["compare", run, run, "--markdown", folder / "c.md"],
        ["compare", "size", "--detect", "5pt", "--pilot", run],
        ["promote", gate, run, "--against", run, "-o", folder / "p.md"],
        ["show", run, "--full"],
        ["show", "watch", run],
        ["show", "profile", run],
        ["judge", "study", run, "--sample", 1, "-m", "m"],
        ["eval", "bfcl_v3", "-o", run, "--resume"],
        ["new", "world", "w", "--from-recording", recording, *made],
        ["new", "world", "w", "--openapi", document, "--bearer", "OPENAI_API_KEY", *made],
        ["import", "atif", chats, "-o", out],
        ["train", run / "run.toml", "-o", out],
        ["promote", gate, run, "--continue", 9],
        ["run", "-o", run, "--resume"],
        ["run", "--from", f"{run}/e000000@0", "-o", out],
        ["run", "--config", run / "run.toml", "-o", out],
        ["view", run, "--export", folder / "out.html"],
        ["import", "chat", chats, "-o", out],
        ["worlds", "show", lair.package],
        *(["export", run, "--to", to] for to in ("jsonl", "atif", "hf-trace", "otlp", "sft")),
        *(["export", run, "--to", to, "-o", out] for to in ("jsonl", "atif", "hf-trace")),
    ]
    return rng.choice(commands)


def _recorded(lair: Lair, rng: Random) -> list[dict[str, Any]]:
    """A recording of a session with a server whose command is the lair's, with odd values."""
    odd = rng.choice(("x", "\x1b[2J", "../../x", 2**63, 10.0**300, [[[]]], None))
    head = {"session": "s", "at": 1.0}
    marks = ({}, {"mark": ""}, {"mark": "0" * 64})
    return [
        {"recorded": "started", **head, "command": [str(lair.program), "x"], **rng.choice(marks)},
        {"recorded": "tools", "session": "s", "tools": [{"name": "add", "description": odd}]},
        {"recorded": "asked", **head, "id": 1, "name": "add", "arguments": {"title": odd}},
        {"recorded": "answered", **head, "id": 1, "result": {"content": [], "x": odd}},
    ]


def _document(lair: Lair, rng: Random) -> dict[str, Any]:
    """An OpenAPI document whose server is the lair's, with references to other places."""
    place = rng.choice((f"file://{lair.mine}/file", f"{lair.url}/x.json", "#/x", "x"))
    schema = rng.choice(({"type": "string"}, {"$ref": place}))
    content = {"application/json": {"schema": schema}}
    path = {"post": {"operationId": "add", "requestBody": {"content": content}, "responses": {}}}
    servers = [{"url": rng.choice((lair.url, place, 7))}]
    return {
        "openapi": "3.1.0",
        "info": {"title": "x", "version": "1"},
        "paths": {"/x": path},
        "servers": rng.choice((servers, servers[0], [])),
    }
