"""verifiers' built-in `nemo-gym` taskset on /gym: the oracle gets 1, doing nothing 0."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.integrations.serving import oracle_model, report, served

WORLD = "shop_support"
NUM_TASKS = 3
CONFIG = """
model = "{model}"
max_concurrent = {tasks}
push = false
output_dir = "{output}"
[client]
base_url = "{model_url}"
api_key_var = "DOOR_KEY"
[env.agent.runtime]
type = "subprocess"
[env.agent.harness]
id = "null"
[env.taskset]
id = "nemo-gym"
dataset = "{rows}"
[env.taskset.task]
resources_url = "{url}/gym/{world}"
"""


def rewards(python: Path, folder: Path, model: str, model_url: str, url: str) -> list[float]:
    """The rewards that vf-eval reports for the tasks."""
    output = folder / model
    config = folder / f"{model}.toml"
    about = {"tasks": NUM_TASKS, "output": output, "rows": folder / "rows.jsonl", "world": WORLD}
    config.write_text(CONFIG.format(model=model, model_url=model_url, url=url, **about))
    path = f"{python.parent}:{os.environ['PATH']}"  # uv is there
    environment = {**os.environ, "PATH": path, "DOOR_KEY": "none"}
    command = [str(python.parent / "vf-eval"), "@", str(config), "--no-push"]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    (traces,) = output.glob("*/traces.jsonl")
    episodes = [json.loads(line) for line in traces.read_text().splitlines()]
    assert [one["errors"] for one in episodes] == [[]] * NUM_TASKS, episodes
    return [one["traces"][0]["rewards"]["nemo_gym"]["score"] for one in episodes]


def main(python: Path) -> None:
    """Check both models."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        every = folder / "all.jsonl"
        export = ["export", WORLD, "--to", "gym", "-o", str(every)]
        subprocess.run([sys.executable, "-m", "rehearsal_room", *export], check=True)
        chosen = every.read_text().splitlines(keepends=True)[:NUM_TASKS]
        (folder / "rows.jsonl").write_text("".join(chosen))
        with served(WORLD) as url, oracle_model(WORLD) as model_url:
            for model, expected in (("oracle", 1.0), ("noop", 0.0)):
                found = rewards(python, folder, model, model_url, url)
                assert found == [expected] * NUM_TASKS, (model, found)
                report(f"vf-eval, taskset nemo-gym: {model} got {found}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
