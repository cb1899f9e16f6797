"""Agent World Model's released code, run on one task: its agent, its verifier and its judge.

    python awm_runner.py JOB    with AWM's code on PYTHONPATH, in an environment that has what
                                it needs; JOB is a JSON object, as is the last line of output

Nothing of the released code is replaced. Its agent ends with an attempt to copy the database onto
itself, after the trajectory was written; that error is passed over.
"""

import asyncio
import contextlib
import json
import os
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any


def main() -> None:
    """Run one job: {data, out, scenario, task, model_url, judge_url, judge_model, max_steps}."""
    job = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps(_played(job)) + "\n")
    sys.stdout.flush()
    os._exit(0)  # its event loops have tasks that do not end


def _played(job: dict[str, Any]) -> dict[str, Any]:
    out, data = Path(job["out"]), Path(job["data"])
    out.mkdir(parents=True)
    envs = out / "gen_envs.jsonl"  # the code of the server is written beside it
    shutil.copy(data / envs.name, envs)
    os.environ |= {
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": job["judge_url"],
        "AWM_SYN_OVERRIDE_MODEL": job["judge_model"],
    }
    try:
        _act(job, out, data, envs)
    except Exception as exc:
        return {"crash": _last_line(exc)}
    trajectory = json.loads((out / "trajectory.json").read_text())
    try:
        verdict = _verify(out, data)
    except Exception as exc:
        return {"crash": _last_line(exc), "trajectory": trajectory}
    return {"trajectory": trajectory, "verdict": verdict}


def _act(job: dict[str, Any], out: Path, data: Path, envs: Path) -> None:
    from awm.core import agent  # type: ignore[import-not-found]

    config = agent.Config(
        scenario=job["scenario"],
        task_id=job["task"],
        api_url=job["model_url"],
        model="parity",
        output_dir=str(out),
        envs_path=str(envs),
        tasks_path=str(data / "gen_tasks.jsonl"),
        db_path=str(data / "gen_db.jsonl"),
        sample_path=str(data / "gen_sample.jsonl"),
        verbose=False,
    )
    with contextlib.suppress(shutil.SameFileError):
        asyncio.new_event_loop().run_until_complete(agent.run_agent(config))


def _verify(out: Path, data: Path) -> Any:
    from awm.core import verify  # type: ignore[import-not-found]

    config = verify.Config(input=str(out), verifier_path=str(data / "gen_verifier.jsonl"))
    config.pre_process()
    return asyncio.new_event_loop().run_until_complete(verify.run_verify(config))


def _last_line(exc: Exception) -> str:
    return traceback.format_exception_only(exc)[-1].strip()


if __name__ == "__main__":
    main()
