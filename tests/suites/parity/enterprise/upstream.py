"""PYTHON tests/suites/parity/enterprise/upstream.py CHECKOUT TASKS RESULTS BASE_URL [ATTEMPTS]:
EnterpriseOps-Gym's own runner.

It runs in the interpreter that has the checkout's packages and imports nothing of this project.
Each task is played by `evaluate.execute_sample`, as its command line does it.
"""

import asyncio
import glob
import json
import logging
import os
import sys
import types


def main(checkout: str, tasks: str, results: str, url: str, attempts: str = "1") -> None:
    """Play the tasks of a folder."""
    sys.path.insert(0, checkout)
    os.chdir(tasks)  # paths of seeds are relative to where upstream is started
    sets = types.ModuleType("datasets")  # only rows of the hub are read with it
    vars(sets)["load_dataset"] = None
    sys.modules["datasets"] = sets
    import evaluate  # type: ignore[import-not-found]

    logging.disable(logging.CRITICAL)
    settings = {"llm_provider": "vllm", "llm_model": "parity", "llm_api_key": "none"}
    settings["llm_api_endpoint"] = url
    config = os.path.join(results, "llm.config")
    with open(config, "w") as file:
        json.dump(settings, file)

    async def play() -> None:
        for path in sorted(glob.glob("*.json")):
            await evaluate.execute_sample(path, config, results, max_num_attempts=int(attempts))

    asyncio.run(play())


if __name__ == "__main__":
    main(*sys.argv[1:6])
