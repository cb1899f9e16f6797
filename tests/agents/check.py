"""The recipes of examples/agents against one scripted model: what they did must be equal.

    .venv/bin/python -m tests.agents.check EPISODES AGENT...        (see run.sh, which installs)

The plain loop and every agent play the same tasks, with model `mixed` of
tests.integrations.oracle_model: right and wrong moves, calls that fail, and dialogues. Compared
with the plain loop, episode by episode: label, ending, answer, each call with its result, the rows
that it changed and the digest of the state after it, and what was said to and by the user. The
requests and tokens of the log's ModelAsked are those that the model's server counted. A window of
two turns is tried, too: what an episode does then must be equal as well.

The table says what was found; build/agents has it (table.md) and the runs. The model is ours and
scripted, so this says nothing about how well a framework's prompts work.
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import rehearsal_room as rr
from rehearsal_room.scenarios.catalogue import find
from tests.integrations.serving import get, oracle_model

WORLDS = ("shop_support", "flight_desk", "claims_desk")
BUILT = Path("build/agents")
PLAIN = "plain_loop"
RECIPES = Path("examples/agents")
WINDOW = "last:2"


class Played(NamedTuple):
    """What an agent did in the tasks."""

    facts: dict[tuple[str, str], Any]  # by world and task
    trajectories: tuple[rr.Trajectory, ...]
    counted: dict[str, int]  # requests and tokens, by the model's server
    seconds: float


def main(episodes: int, agents: list[str]) -> int:
    """Play, compare and print; the number of agents that differ."""
    tasks, faults = chosen_tasks(episodes), 0
    names = ("agent", "equal", "requests", "tokens", "conversations", "API", "window", "spans")
    rows = [f"| {' | '.join(names)} | s an episode |"]
    rows.append("|---|---|---:|---|---:|---|---|---:|---:|")
    with oracle_model(*WORLDS) as url:
        plain = play(PLAIN, tasks, url)
        for agent in (PLAIN, *agents):
            played = plain if agent == PLAIN else play(agent, tasks, url)
            different = [key for key in plain.facts if played.facts.get(key) != plain.facts[key]]
            logged, is_counted = requests_of(played), ""
            window = play(agent, tasks[:2], url, "--history", WINDOW)
            cut = any(one.first_turn for run in window.trajectories for one in run.asked)
            cut = cut and window.facts == {key: plain.facts[key] for key in window.facts}
            is_counted = "equal" if logged == played.counted else f"{logged} {played.counted}"
            faults += bool(different) or not cut or logged != played.counted
            equal = f"{len(plain.facts) - len(different)} of {len(plain.facts)}"
            each = f"{played.seconds / len(plain.facts):.1f}"
            columns = (agent, equal, logged["requests"], is_counted, conversations(played))
            columns += (apis(played), "equal" if cut else "different", spans(played), each)
            rows.append("| " + " | ".join(map(str, columns)) + " |")
            sys.stderr.write(f"{rows[-1]}\n")
            for key in different[:3]:
                show(key, plain.facts[key], played.facts.get(key))
    (BUILT / "table.md").write_text("\n".join(rows) + "\n")
    sys.stdout.write((BUILT / "table.md").read_text())
    return faults


def chosen_tasks(episodes: int) -> list[str]:
    """Tasks of all worlds, those with a user first: half of them, where there are so many."""
    draw, chosen = Random(35), list[str]()
    for number, world in enumerate(WORLDS):
        size = episodes // len(WORLDS) + (number < episodes % len(WORLDS))
        tasks = find(world).tasks
        talks = [task.id for task in tasks if task.is_dialogue]
        # The model tells tasks by their instruction.
        said = {task.instruction.strip() for task in tasks if task.is_dialogue}
        others = [task.id for task in tasks if task.instruction.strip() not in said]
        talks = draw.sample(talks, min(len(talks), (size + 1) // 2))
        chosen += [f"{world}:{one}" for one in [*talks, *draw.sample(others, size - len(talks))]]
    return chosen


def play(agent: str, tasks: list[str], url: str, *more: str) -> Played:
    """A run of an agent."""
    folder = BUILT / "-".join([agent, *more[1:]]).replace(":", "")
    shutil.rmtree(folder, ignore_errors=True)
    words = ["run", *tasks, "-m", "mixed", "--base-url", url, "-o", str(folder), "-c", "3"]
    words += ["--agent", command_of(agent), *more]
    before, began = get(f"{url.removesuffix('/v1')}/account"), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "rehearsal_room", *words], capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{agent}: {done.stdout}\n{done.stderr}")
    seconds = time.perf_counter() - began
    after = get(f"{url.removesuffix('/v1')}/account")
    with rr.open_log(folder) as log:
        played = tuple(log.trajectories())
    facts = {(one.started.scenario, one.started.task): facts_of(one) for one in played}
    return Played(facts, played, {name: after[name] - before[name] for name in after}, seconds)


def command_of(agent: str) -> str:
    """The value of --agent."""
    if agent == PLAIN:
        return f"{RECIPES / agent}.py:agent"
    environment = Path(f".venv-agents-{agent}").absolute()
    if (RECIPES / f"{agent}.sh").exists():
        return f"PATH={environment}/node_modules/.bin:$PATH sh {RECIPES / agent}.sh"
    return f"{environment}/bin/python {RECIPES / agent}.py"


def facts_of(played: rr.Trajectory) -> Any:
    """What must be equal of an episode."""
    steps = [
        (
            [(call.name, call.arguments) for call in step.executed_calls],
            step.executed_results,
            None if step.user is None else (step.reply.text, step.user.text),
        )
        for step in played.steps[:-1]  # only the plain loop says its answer to the user
    ]
    assert played.ended is not None
    return [played.judged[-1].label, played.ended.ending, played.ended.answer, *steps]


def requests_of(played: Played) -> dict[str, int]:
    """The requests and tokens that the log has."""
    usages = [one.reply.usage for run in played.trajectories for one in run.asked if one.reply]
    return {
        "requests": len(usages),
        "prompt_tokens": sum(usage.prompt_tokens for usage in usages),
        "completion_tokens": sum(usage.completion_tokens for usage in usages),
    }


def conversations(played: Played) -> str:
    """How many requests of an episode go on after none: at least, and at most."""
    numbers = [sum(not goes_on(one, run) for one in run.asked) for run in played.trajectories]
    return str(numbers[0]) if len(set(numbers)) == 1 else f"{min(numbers)} to {max(numbers)}"


def goes_on(asked: Any, run: rr.Trajectory) -> bool:
    """Whether a request goes on after all of an earlier one, with its reply."""
    if asked.parent is None:
        return False
    parent = run.asked[asked.parent]
    return bool(asked.shared == parent.shared + len(parent.messages) + 1)


def apis(played: Played) -> str:
    """The APIs of the requests."""
    return ", ".join(sorted({one.api for run in played.trajectories for one in run.asked}))


def spans(played: Played) -> int:
    """How many spans came; every one is in the log."""
    sent = [run.spans for run in played.trajectories if run.spans is not None]
    assert not any(one.left_out or one.num_refused for one in sent), sent
    return sum(len(one.spans) for one in sent)


def show(key: tuple[str, str], expected: Any, found: Any) -> None:
    """Print where an episode differs."""
    sys.stderr.write(f"{':'.join(key)}:\n")
    for left, right in zip(expected, found or [], strict=False):
        if left != right:
            sys.stderr.write(f"  expected {str(left)[:600]}\n  found    {str(right)[:600]}\n")
            return
    sys.stderr.write(f"  {len(expected)} and {len(found or [])} facts\n")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
