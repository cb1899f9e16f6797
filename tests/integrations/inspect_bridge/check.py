"""Inspect's evaluation of our tasks with its mock model, and Inspect's agents in `rehearse`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from inspect_ai import eval as inspect_eval
from inspect_ai.agent import AgentState, agent, react
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate

from rehearsal_room.bridges.inspect import rehearsal_task
from rehearsal_room.bridges.inspect_agents import inspect_agent, inspect_solver
from rehearsal_room.bridges.inspect_tools import world_tools
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.library import rehearse
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Task

WORLD = "shop_support"


def say(*words: object) -> None:
    """Report a result to the reader of the check."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")


def tasks() -> list[Task]:
    """Three tasks whose solution changes the world."""
    return [task for task in find(WORLD).default_tasks if task.oracle][:3]


def outputs(task: Task, *, submit: bool = False) -> list[ModelOutput]:
    """What a model says that solves the task."""
    replies = [
        ModelOutput.for_tool_call("mockllm/model", call.name, dict(call.arguments))
        for call in task.oracle
    ]
    if submit:
        last = ModelOutput.for_tool_call("mockllm/model", "submit", {"answer": task.answer})
    else:
        last = ModelOutput.from_content("mockllm/model", task.answer or "Done.")
    return counted(*replies, last)


def counted(*replies: ModelOutput) -> list[ModelOutput]:
    """The same with a usage; Inspect's mock model would load a tokenizer to count tokens."""
    for one in replies:
        one.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return list(replies)


def evaluated(
    work: Path, name: str, task: Task, replies: Sequence[ModelOutput], **fields: Any
) -> Any:
    """The log of one sample that the mock model plays, and our log of it."""
    folder = work / name
    made = rehearsal_task([f"{WORLD}:{task.id}"], folder, judge=ScenarioJudges, **fields)
    model = get_model("mockllm/model", custom_outputs=list(replies))
    (log,) = inspect_eval(made, model=model, display="none", log_format="eval")
    assert log.status == "success", (name, log.error and log.error.message)
    return log.samples[0]


def check_tasks(work: Path) -> None:
    for task in tasks():
        sample = evaluated(work, f"oracle-{task.id}", task, outputs(task))
        score = sample.scores["_judged"]
        assert score.value in (1, True, "C"), (task.id, score)
        assert score.metadata["reward"] == 1.0
        noop = evaluated(
            work, f"noop-{task.id}", task, counted(ModelOutput.from_content("m", "No."))
        )
        assert noop.scores["_judged"].value in (0, False, "I"), (task.id, noop.scores)
        loop = react(tools=[world_tools()])
        played = evaluated(work, f"react-{task.id}", task, outputs(task, submit=True), agent=loop)
        assert played.scores["_judged"].metadata["reward"] == 1.0, (task.id, played.scores)


def check_agents(work: Path) -> None:
    task = tasks()[0]

    @agent
    def caller(tools: Any) -> Any:
        model = get_model("mockllm/model", custom_outputs=outputs(task))

        async def execute(state: AgentState) -> AgentState:
            replies, state.output = await model.generate_loop(state.messages, tools=tools)
            state.messages += replies
            return state

        return execute

    async def play(name: str, function: Any) -> None:
        report = await rehearse(function, [f"{WORLD}:{task.id}"], work / name, judge=ScenarioJudges)
        assert report.pass_rate == 1.0, (name, report)
        say(name, report.labels)

    solver_model = get_model("mockllm/model", custom_outputs=outputs(task))
    anyio.run(play, "agent", inspect_agent(caller))
    anyio.run(play, "solver", inspect_solver(generate(), solver_model))


def check_logs(work: Path) -> None:
    """Each of our episodes has an end; none was left live."""
    for folder in sorted(work.glob("*-*")):
        with open_reader(folder) as reader:
            for row in reader.episodes():
                assert row.ending is Ending.ANSWERED, (folder, row.ending)


if __name__ == "__main__":
    check_tasks(Path(sys.argv[1]))
    check_agents(Path(sys.argv[1]))
    check_logs(Path(sys.argv[1]))
    say("inspect_bridge: all as promised")
