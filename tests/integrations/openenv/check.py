"""OpenEnv 0.10's own clients on /openenv: `openenv validate` 6/6; 64 concurrent episodes of
GenericEnvClient and MCPToolClient on bundled worlds and AWM's fixtures, where the oracle gets 1 and
doing nothing does not; AWM's fields; and steps a second, against the official server with a trivial
environment. `foreign.py` runs episodes in the environments of the official server."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rehearsal_room.scenarios.catalogue import find
from tests.integrations.openenv.foreign import run_on_official
from tests.integrations.serving import client, report, served

AWM = Path("tests/fixtures/awm")
WORLDS = ("shop_support", "flight_desk")


def bundled_plays(world: str) -> list[dict[str, Any]]:
    """The oracles of a bundled world."""
    scenario = find(world)
    return [
        {
            "task_idx": scenario.tasks.index(task),
            "calls": [{"name": call.name, "arguments": call.arguments} for call in task.oracle],
            "answer": task.answer,
        }
        for task in scenario.default_tasks
    ]


def awm_plays() -> list[dict[str, Any]]:
    """The oracles of the fixtures whose tasks can be solved."""
    rows = [json.loads(line) for line in (AWM / "oracle.jsonl").read_text().splitlines()]
    return [
        {
            "task_idx": row["task_idx"],
            "calls": [
                {"name": call["tool"], "arguments": call["arguments"]}
                for call in row["oracle"]["calls"]
            ],
            "answer": row["oracle"]["final_answer"],
        }
        for row in rows
        if row["status"] == "solvable"
    ]


def validate(python: str, url: str) -> None:
    """All six criteria of `openenv validate --url` pass."""
    command = [str(Path(python).parent / "openenv"), "validate", "--url", url, "--json"]
    made = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    results = {one["id"]: one["passed"] for one in made["criteria"]}
    assert len(results) == 6, results
    assert all(results.values()), results
    report(f"openenv validate --url {url}: {len(results)}/6")


def main(python: str) -> None:
    """Check everything."""
    with TemporaryDirectory() as name:
        plays = Path(name) / "plays.json"
        with served(*WORLDS) as url:
            for world in WORLDS:
                validate(python, f"{url}/openenv/{world}")
                plays.write_text(json.dumps(bundled_plays(world)))
                client(
                    python,
                    "tests/integrations/openenv/client.py",
                    f"{url}/openenv/{world}",
                    str(plays),
                )
            client(python, "tests/integrations/openenv/speed.py", f"{url}/openenv/{WORLDS[0]}")
        scenario = "e_commerce_lab_1"
        with served(scenario, flags=["--awm", str(AWM)]) as url:
            plays.write_text(json.dumps(awm_plays()))
            client(
                python,
                "tests/integrations/openenv/client.py",
                f"{url}/openenv/{scenario}",
                str(plays),
            )
    run_on_official(python)


if __name__ == "__main__":
    main(sys.argv[1])
