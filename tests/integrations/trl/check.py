"""What examples/trl_grpo.py left: its log, its rewards, and the schemas of its tools; and why TRL
cannot take an agent of the user's own."""

import inspect
import re
import sys
from pathlib import Path

from transformers.utils import get_json_schema
from trl import GRPOTrainer

from rehearsal_room.bridges.asked_episodes import OpenRun
from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.run_options import RunOptions
from rehearsal_room.bridges.trainers.trl import environments
from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.log.reader import open_reader

STEPS, GROUP, SOLUTIONS = 10, 4, 2


def check_log(work: Path) -> None:
    """Each rollout is an episode with an end and a verdict, and calls of the model are steps."""
    with open_reader(work / "run") as reader:
        rows = list(reader.episodes())
    assert len(rows) == STEPS * GROUP + SOLUTIONS
    assert {row.ending for row in rows} <= {Ending.ANSWERED, Ending.TOKEN_LIMIT, Ending.STEP_LIMIT}
    assert all(row.label is not None for row in rows)
    assert max(row.num_steps for row in rows[SOLUTIONS:]) > 1, "no rollout made a call"
    completed = sum(row.label is Label.COMPLETED for row in rows[SOLUTIONS:])
    rewards = [float(one) for one in re.findall(r"reward ([\d.]+)", (work / "output").read_text())]
    assert len(rewards) == STEPS
    say(f"{completed} of {STEPS * GROUP} rollouts completed; rewards {rewards}")


def check_schemas(work: Path) -> None:
    """transformers reads the schema of each tool of the bundled worlds from its method."""
    run = BackgroundRun(
        work / "schemas", ["shop_support", "flight_desk", "claims_desk"], RunOptions()
    )
    count = 0
    for world, kind in environments(run).items():
        name = next(one for one in run.tasks if one.startswith(f"{world}:"))
        for tool in run.call(OpenRun.briefing, name).tools:
            found = get_json_schema(getattr(kind(), tool.name))["function"]["parameters"]
            assert set(found["properties"]) == set(tool.schema.get("properties", {}))
            assert set(found.get("required", [])) == set(tool.schema.get("required", []))
            count += 1
    run.close()
    say(f"{count} tools of three worlds have the schemas that they must have")


def check_rows() -> None:
    """TRL compares `num_generations` rows a prompt, also those of a rollout function: an episode of
    several sequences has no place. Where this is no longer so, the refusal can go."""
    source = inspect.getsource(GRPOTrainer)
    assert "rewards.view(-1, num_generations)" in source
    say("one row for each generation of a prompt")


def say(text: str) -> None:
    """Report a result to the reader of the check."""
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    check_log(Path(sys.argv[1]))
    check_schemas(Path(sys.argv[1]))
    check_rows()
