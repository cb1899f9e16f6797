"""vf-validate and vf-eval on our taskset: oracle 1, no-op 0, windows as branches; and agents of
the user's own over the client with which verifiers trains, whose engine is the model of policy
`local`."""

import asyncio
import json
import os
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verifiers.v1.trace import WireTrace

from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Task
from tests.bridges.trainers.branching import LocalSampler, Row, local_sampler, replies_in
from tests.bridges.trainers.stubs import TASK
from tests.harness.agents import own
from tests.support.model_server import Completes, ModelServer, ReceivedRequest, response
from tests.support.paths import LIBRARY
from tests.support.tiny_model import write_model

WORLD, NUM_TASKS = "shop_support", 3
PROGRAM = "import sys; from verifiers.v1.cli.{} import main; sys.exit(main())"


@dataclass(frozen=True)
class Plays:
    """A model that plays the oracle of the task whose instruction it is shown; model `noop` answers
    at once. The turn is known by the id of the last call, since a window may lack earlier ones."""

    tasks: dict[str, Task]

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        return await self.reply(request.body).perform(request, writer)

    def reply(self, body: dict[str, Any]) -> Completes:
        if body["model"] == "noop":
            return Completes("I have done nothing.")
        messages = body["messages"]
        users = [message["content"] for message in messages if message["role"] == "user"]
        task = next(self.tasks[text] for text in map(_text, users) if text in self.tasks)
        ids = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
        turn = int(ids[-1].split("-")[0].lstrip("c")) + 1 if ids else 0
        if turn == len(task.oracle):
            return Completes(task.answer or "Done.")
        call = task.oracle[turn]
        return Completes(None, ((f"c{turn}-0", call.name, json.dumps(call.arguments)),))


@dataclass(frozen=True)
class Generates:
    """vLLM's /inference/v1/generate over a sampler."""

    sampler: LocalSampler

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        assert request.path == "/inference/v1/generate", request.path
        ids, logprobs = self.sampler.sample(request.body["token_ids"])
        named = [
            {"token": f"token_id:{id}", "logprob": logprob}
            for id, logprob in zip(ids, logprobs, strict=True)
        ]
        choice = {"token_ids": ids, "logprobs": {"content": named}, "finish_reason": "length"}
        writer.write(response(200, json.dumps({"choices": [choice]}).encode()))
        return True


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


async def program(name: str, *arguments: str, work: Path) -> None:
    """Run a program of verifiers; its output is shown where it fails."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore", "-c", PROGRAM.format(name), *arguments),
        cwd=work,
        env=os.environ | {"OUR_KEY": "secret", "HF_HUB_OFFLINE": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, f"{name}: exit status {process.returncode}\n{output.decode()}"


async def evaluated(
    work: Path, url: str, model: str, *more: str, number: int = NUM_TASKS
) -> list[dict[str, Any]]:
    """The traces of an evaluation."""
    name = f"e{len(list((work / 'out').glob('*')))}"
    await program(
        "eval.main",
        *("rehearsal-verifiers", "-n", str(number), "-m", model, "--no-push", "--no-rich"),
        *("--env.agent.runtime.type", "subprocess"),
        *("--client.base-url", url, "--client.api-key-var", "OUR_KEY"),
        *("-o", str(work / "out"), "--run.name", name, "--env.taskset.output", f"runs/{name}"),
        *more,
        work=work,
    )
    lines = (work / "out" / name / "traces.jsonl").read_text().splitlines()
    assert len(lines) == number
    (folder,) = (work / "runs" / name).iterdir()
    with open_reader(folder) as reader:
        assert [row.ending for row in reader.episodes()] == [Ending.ANSWERED] * number
    return [trace for line in lines for trace in json.loads(line)["traces"]]


def rewards(traces: list[dict[str, Any]]) -> list[float]:
    return [trace["rewards"]["rehearsal"]["score"] for trace in traces]


async def main(work: Path) -> None:
    await program(
        "validate",
        "rehearsal-verifiers",
        "-n",
        str(NUM_TASKS),
        "-o",
        str(work / "v"),
        "--runtime.type",
        "subprocess",
        work=work,
    )
    (results,) = (work / "v").rglob("results.jsonl")
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert [row["reason"] for row in rows] == ["valid"] * NUM_TASKS, rows
    say("vf-validate:", len(rows), "tasks valid, untouched rewards", *untouched(rows))
    tasks = {task.instruction: task for task in find(WORLD).default_tasks}
    async with ModelServer(Plays(tasks)) as server:
        oracle = await evaluated(work, server.url, "oracle")
        noop = await evaluated(work, server.url, "noop")
        windows = await evaluated(work, server.url, "oracle", "--env.taskset.history", "last:1")
    assert rewards(oracle) == rewards(windows) == [1.0] * NUM_TASKS
    assert max(rewards(noop)) == 0.0, rewards(noop)
    assert [trace["metrics"]["completed"] for trace in oracle] == [1.0] * NUM_TASKS
    say("vf-eval: oracle", rewards(oracle), "noop", rewards(noop))
    say("nodes of a trace: full", len(oracle[0]["nodes"]), "last:1", len(windows[0]["nodes"]))
    await own_agents(work)


async def own_agents(work: Path) -> None:
    """Each sampled reply of an agent is in one branch that is trained, in its context."""
    model = work / "model"
    write_model(model)
    task = json.dumps([TASK.replace("library", str(LIBRARY))])
    for agent in ("compacts", "two_helpers"):
        with local_sampler(model) as sampler:
            async with ModelServer(Generates(sampler)) as server:
                (trace,) = await evaluated(
                    work,
                    server.url,
                    str(model),
                    *("--client.type", "train"),
                    *("--env.taskset.scenarios", task),
                    *("--env.taskset.agent", f"{own.__file__}:{agent}"),
                    number=1,
                )
        assert rewards([trace]) == [1.0]
        rows = trained(trace)
        found = Counter((context, ids) for context, ids, _ in replies_in(rows).elements())
        assert found == Counter((context, ids) for context, ids, _ in sampler.sampled), agent
        say(f"{agent}: {found.total()} replies, each once, in {len(rows)} branches")


def trained(trace: dict[str, Any]) -> list[Row]:
    """The branches of a trace as prime-rl trains them: a node of several branches in the first."""
    rows: list[Row] = []
    seen: set[int] = set()
    for branch in WireTrace.model_validate(trace).branches:
        mask: list[int] = []
        for node in branch.nodes:
            mask += [0 if id(node) in seen else int(one) for one in node.mask]
            seen.add(id(node))
        if any(mask):
            rows.append((branch.token_ids, mask, branch.logprobs))
    return rows


def untouched(rows: list[dict[str, Any]]) -> list[float]:
    return [row["noop"]["reward"] for row in rows]


def say(*words: object) -> None:
    """Report a result to the reader of the check."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).resolve()))
