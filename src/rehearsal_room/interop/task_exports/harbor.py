"""Tasks as task folders of Harbor (`--to harbor`), one for each task:

    shop_support__cancel-pending/
      task.toml                  names, limits, the MCP server of the agent
      instruction.md             the task, the rules, where the answer goes
      environment/Dockerfile     Rehearsal, and the world where it is not a bundled one
      environment/entrypoint.sh  begins the episode: `rehearse play … --http`
      environment/client.py      tools over MCP, the verdict (harbor_client)
      tests/test.sh              ends the episode and writes the reward
      solution/solve.sh          the oracle's calls and answer

The agent is a user of its own in the container: it cannot read the package, whose verifiers and
solutions it would find there.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import msgspec
import tomli_w

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.schema import write_atomically
from rehearsal_room.harness.rollout.episode import user_of
from rehearsal_room.interop.task_exports import harbor_client
from rehearsal_room.interop.task_exports.world_tasks import TaskFormat, WorldTasks
from rehearsal_room.scenarios.distribution import NAME, version
from rehearsal_room.scenarios.format import BUNDLED, Scenario, Task

_CLIENT = "/opt/client/client.py"
_PORT = 8765
_AGENT_SECONDS, _VERIFIER_SECONDS = 900.0, 300.0
_encode = msgspec.json.Encoder().encode


def write_harbor(path: Path, worlds: Sequence[WorldTasks]) -> int:
    """Write a folder of task folders; return their number. Raises SettingsError."""
    for world in worlds:
        _check(world.scenario)
    count = 0
    try:
        path.mkdir(exist_ok=True)
        for world in worlds:
            for task in world.tasks:
                _write_task(path / folder_name(world.scenario, task), world, task)
                count += 1
    except OSError as exc:
        raise SettingsError(f"{path}: the tasks cannot be written: {exc}") from exc
    return count


def folder_name(scenario: Scenario, task: Task) -> str:
    """The name of a task's folder.

    Example: "shop_support__cancel-pending"
    """
    return f"{scenario.name}__{task.id}"


def _check(scenario: Scenario) -> None:
    """Refuse a world whose code needs more than the container has. Raises SettingsError."""
    if scenario.awm is not None or scenario.written_by == "model":
        raise SettingsError(
            f"--to harbor: a model wrote the code of {scenario.name}, which runs in a sandbox that"
            " a container does not have; name worlds in our own format"
        )
    if not scenario.has_code:
        raise SettingsError(f"--to harbor: {scenario.name} is not a package of its own")


def _write_task(folder: Path, world: WorldTasks, task: Task) -> None:
    scenario = world.scenario
    for part in ("environment", "tests", "solution"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    environment = folder / "environment"
    if not _is_bundled(scenario):
        copytree(
            scenario.path,
            environment / "world" / scenario.name,
            dirs_exist_ok=True,
            ignore=ignore_patterns("__pycache__"),
        )
    client = Path(harbor_client.__file__).read_text(encoding="utf-8")
    _write(folder / "task.toml", tomli_w.dumps(_config(scenario, task)))
    _write(folder / "instruction.md", _instruction(scenario, task))
    _write(environment / "Dockerfile", _dockerfile(scenario))
    _write(environment / "client.py", client)
    _write(environment / "entrypoint.sh", _entrypoint(scenario, task), is_program=True)
    _write(folder / "tests" / "test.sh", _TEST, is_program=True)
    _write(folder / "solution" / "solve.sh", _solution(task), is_program=True)


def _write(path: Path, text: str, *, is_program: bool = False) -> None:
    write_atomically(path, text.encode())
    path.chmod(0o755 if is_program else 0o644)


def _is_bundled(scenario: Scenario) -> bool:
    return scenario.path.parent == BUNDLED


def _config(scenario: Scenario, task: Task) -> dict[str, Any]:
    """task.toml (schema 1.4)."""
    return {
        "schema_version": "1.4",
        "task": {
            "name": f"rehearsal/{folder_name(scenario, task)}",
            "version": scenario.version,
            "description": scenario.title,
            "keywords": ["tool-use", *task.tags],
        },
        "metadata": {
            "scenario": scenario.name,
            "task": task.id,
            "difficulty": task.difficulty,
            "kind": task.kind,
            "scenario_digest": scenario.digest,
            "made_by": f"Rehearsal {version()}",
        },
        "agent": {"timeout_sec": _AGENT_SECONDS, "user": "agent"},
        "verifier": {"timeout_sec": _VERIFIER_SECONDS, "user": "root"},
        "environment": {
            "workdir": "/app",
            "env": {"WORLD_HAS_USER": "1"} if task.is_dialogue else {},
            "healthcheck": {
                "command": "test -e /run/world/ready",
                "interval_sec": 1.0,
                "start_period_sec": 5.0,
                "retries": 120,
            },
            "mcp_servers": [
                {
                    "name": "world",
                    "transport": "stdio",
                    "command": "python3",
                    "args": [_CLIENT, "mcp"],
                }
            ],
        },
    }


def _instruction(scenario: Scenario, task: Task) -> str:
    user = user_of(scenario)
    parts = [
        task.instruction,
        "---",
        "Use the tools of the MCP server `world`"
        f"{f', for {user}, who is logged in already' if user else ''}. Change only what the task"
        " asks for, and keep to the rules.",
        _HOW_TO_TALK if task.is_dialogue else _HOW_TO_ANSWER,
        *([f"The time is {scenario.clock}."] if scenario.clock else []),
        *(["# Rules", scenario.rules] if scenario.rules else []),
    ]
    return "\n\n".join(parts) + "\n"


_HOW_TO_ANSWER = (
    "When you are done, or when the task must be declined, write your final answer, in plain"
    " words and with the facts that matter, into the file /app/answer.txt."
)
_HOW_TO_TALK = (
    "The person answers what you say with the tool `talk_to_user`: ask for what the tools cannot"
    " tell you, and say at the end what you did. The person ends the talk. Write your last words"
    " into the file /app/answer.txt, too."
)


def _dockerfile(scenario: Scenario) -> str:
    copied = "" if _is_bundled(scenario) else "COPY world /opt/world\n"
    return _DOCKERFILE.format(package=f"{NAME}=={version()}", world=copied)


_DOCKERFILE = """\
FROM python:3.12-slim
# What pip installs: a version of the package index, a URL or a wheel in this folder.
ARG REHEARSAL={package}
RUN python -m venv /opt/rehearsal && /opt/rehearsal/bin/pip install --no-cache-dir "$REHEARSAL"
{world}COPY client.py entrypoint.sh /opt/client/
# The agent works as a user that can read neither the package nor the log of the episode.
RUN useradd --create-home agent \\
    && mkdir -p /app /opt/world /var/world && chown agent /app \\
    && chmod 700 /opt/rehearsal /opt/world /var/world
WORKDIR /app
ENTRYPOINT ["/opt/client/entrypoint.sh"]
CMD ["sleep", "infinity"]
"""


def _entrypoint(scenario: Scenario, task: Task) -> str:
    source = scenario.name if _is_bundled(scenario) else f"/opt/world/{scenario.name}"
    return _ENTRYPOINT.format(task=shlex.quote(f"{source}:{task.id}"), port=_PORT, client=_CLIENT)


_ENTRYPOINT = """\
#!/bin/sh
# Begin the episode, then run the container's command.
set -eu
mkdir -p /run/world
head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n' > /run/world/token
REHEARSE_TOKEN=$(cat /run/world/token) /opt/rehearsal/bin/rehearse play {task} --http {port} \\
    -o /var/world/run --json /var/world/episode.json > /var/world/play.log 2>&1 &
python3 {client} wait
touch /run/world/ready
exec "$@"
"""

_TEST = f"""\
#!/bin/sh
# End the episode with the agent's answer; its world judges it.
set -eu
python3 {_CLIENT} verdict
"""


def _solution(task: Task) -> str:
    """The oracle's calls, what it says, and its answer."""
    lines = ["#!/bin/sh", "# The reference solution.", "set -eu"]
    for number in range(len(task.oracle) + 1):
        lines += [
            f"python3 {_CLIENT} say {shlex.quote(one.text)}"
            for one in task.utterances
            if one.after == number
        ]
        for call in task.oracle[number : number + 1]:
            arguments = _encode(call.arguments).decode()
            lines.append(f"python3 {_CLIENT} call {call.name} {shlex.quote(arguments)}")
    lines.append(f"printf %s {shlex.quote(task.answer)} > /app/answer.txt")
    return "\n".join(lines) + "\n"


HARBOR = TaskFormat("harbor", write_harbor)
