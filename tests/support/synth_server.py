"""A chat server that writes worlds by a script, and solves their tasks: real HTTP, no model.

    async with ModelServer(Writes({("City Bike Hire", "schema"): (hopeless, good)})) as server:
        ... ask server.url

It reads the stage, the world and the task from the prompt. A script has the answers of a stage in
order, the last of which is repeated; a stage without a script gets a good answer (see
tests.support.synth_worlds). As a solver it makes the calls of the task's solution, or those in
`solutions`.

    python -m tests.support.synth_server --port 0      prints its URL and serves until it is stopped
"""

import argparse
import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support import synth_worlds as worlds
from tests.support.model_server import Completes, ModelServer, ReceivedRequest, response
from tests.support.synth_worlds import Words

Script = Mapping[
    tuple[str, str], Sequence[str]
]  # world and stage (for verify: the task) -> answers
_STAGE = re.compile(r"Stage: (\w+)\.")
_WORLD = re.compile(r"^(?:World|Scenario): (.*)$", re.M)
_FUNCTION = re.compile(r"Write the function (\w+)\.")


@dataclass
class Writes:
    """The behaviour of the server. `solutions` are (calls, answer) by world and instruction;
    `asked` counts the requests of each stage."""

    script: Script = field(default_factory=dict)
    known: Sequence[Words] = worlds.WORLDS
    solutions: Mapping[tuple[str, str], tuple[Sequence[worlds.Call], str]] = field(
        default_factory=dict
    )
    usage: Mapping[str, int] | None = None  # None: the server's own
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    halt: str = ""  # requests of this stage get no answer
    _halted: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def halted(self, number: int) -> None:
        """Wait until `number` requests wait for an answer that never comes."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._halted >= number)

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        if request.path.endswith("/embeddings"):
            return _embed(request, writer)
        if self.halt and f"Stage: {self.halt}." in request.body["messages"][0]["content"]:
            async with self._changed:
                self._halted += 1
                self._changed.notify_all()
            await asyncio.Event().wait()
        reply = (
            self._solve(request.body) if request.body.get("tools") else self._write(request.body)
        )
        body = reply.completion()
        if self.usage is not None:
            body["usage"] = dict(self.usage)
        writer.write(response(200, json.dumps(body).encode()))
        return True

    def _write(self, body: dict[str, Any]) -> Completes:
        text = "\n".join(message["content"] for message in body["messages"][:2])
        found = _STAGE.search(text)
        assert found is not None, text
        stage = found[1]
        named = _WORLD.search(text)
        world = named[1].strip() if named else ""
        function = _FUNCTION.search(text)
        part = function[1] if function else stage
        number = self.asked[world, part]
        self.asked[world, part] += 1
        answers = self.script.get((world, part)) or [self._good(world, stage, part)]
        return Completes(answers[min(number, len(answers) - 1)])

    def _good(self, world: str, stage: str, part: str) -> str:
        if stage == "classify":
            return worlds.classification()
        if stage == "invent":
            raise AssertionError("the script has no new scenarios")
        words = self._words(world)
        match stage:
            case "tasks":
                return worlds.tasks_answer(words)
            case "schema":
                return worlds.schema(words)
            case "data":
                return worlds.data(words)
            case "tools":
                return worlds.tools(words)
            case "code":
                return worlds.code_block(words, worlds.CODE)
        return worlds.code_block(words, worlds.VERIFIERS[part])

    def _words(self, world: str) -> Words:
        return next(words for words in self.known if words.name == world)

    def _solve(self, body: dict[str, Any]) -> Completes:
        instruction = body["messages"][1]["content"]
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        self.asked["", "solve"] += not turn
        calls, answer = self._solution(body, instruction)
        if turn >= len(calls):
            return Completes(answer)
        name, arguments = calls[turn]
        return Completes(None, ((f"call_{turn}", name, json.dumps(arguments)),))

    def _solution(
        self, body: dict[str, Any], instruction: str
    ) -> tuple[Sequence[worlds.Call], str]:
        tools = {tool["function"]["name"] for tool in body["tools"]}
        for words in self.known:
            if f"get_{words.member}" not in tools:
                continue
            if found := self.solutions.get((words.name, instruction)):
                return found
            for name, text in worlds.TASKS.items():
                if worlds.put(words, text) == instruction:
                    calls, answer = worlds.SOLUTIONS[name]
                    dressed = json.loads(worlds.put(words, json.dumps([list(calls), answer])))
                    return [(name, arguments) for name, arguments in dressed[0]], dressed[1]
        return (), "I do not know how."


def _embed(request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
    """Send vectors that depend on the first word of each text."""
    vectors = []
    for index, text in enumerate(request.body["input"]):
        vector = [0.0] * 26
        for letter in re.findall("[a-z]", text.split()[0].lower()):
            vector[ord(letter) - ord("a")] += 1.0
        vectors.append({"index": index, "embedding": vector})
    body = {"data": vectors[::-1], "usage": {"prompt_tokens": 5}}
    writer.write(response(200, json.dumps(body).encode()))
    return True


async def _serve(port: int) -> None:
    async with ModelServer(Writes(), port=port) as server:
        print(server.url, flush=True)  # noqa: T201 - the parent process reads the URL
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(_serve(parser.parse_args().port))
