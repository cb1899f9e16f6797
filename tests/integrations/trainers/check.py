"""Episodes through the types and loops of AReaL, SkyRL, tinker-cookbook and verl themselves. Only
their engines are stand-ins: a sampler that solves a task of the mini world.

    PYTHON -m tests.integrations.trainers.check FOLDER NAME...

Each of them has a door of its own, whose Python runs this module.
"""

import asyncio
import inspect
import sys
import typing
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rehearsal_room.bridges.trainers.areal import RehearsalWorkflow
from rehearsal_room.bridges.trainers.player import Member, SamplerPlayer
from tests.bridges.trainers import stubs
from tests.bridges.trainers.stubs import TASK, Solver
from tests.support.tiny_model import write_tokenizer

Check = Callable[[Path, Path], Coroutine[Any, Any, str]]


async def tinker(work: Path, model: Path) -> str:
    """The cookbook's own rollout loop and its making of training data, with windows."""
    from tinker_cookbook.completers import TokensWithLogprobs
    from tinker_cookbook.rl.data_processing import trajectory_to_data
    from tinker_cookbook.rl.rollouts import do_single_rollout

    from rehearsal_room.bridges.trainers.tinker import RehearsalEnv

    found = []
    for history in ("full", "last:1"):
        run = stubs.run_in(work / f"tinker-{history}", history)
        solver = Solver(run, model)

        async def complete(shown: Any, *_: Any, solver: Solver = solver, **__: Any) -> Any:
            ids, logprobs = solver.sample(shown.to_ints())
            return TokensWithLogprobs(tokens=ids, maybe_logprobs=logprobs)

        player = SamplerPlayer("tinker-cookbook", run, model, context=20_000)
        env: Any = RehearsalEnv(player, TASK, Member())
        completer: Any = complete
        played = await do_single_rollout(completer, env)
        assert sum(one.reward for one in played.transitions) == 1.0
        found.append(len(trajectory_to_data(played, 1.0)))
        run.close()
    assert found[0] == 1 < found[1], found
    return f"data of an episode: full {found[0]}, last:1 {found[1]}"


async def verl(work: Path, model: Path) -> str:
    """verl's AgentLoopBase, AgentLoopOutput and register."""
    from verl.experimental.agent_loop import agent_loop as theirs

    from rehearsal_room.bridges.trainers.verl import agent_loop

    run = stubs.run_in(work / "verl")
    kind = agent_loop(run, model, name="rehearsal", module=__name__)
    assert issubclass(kind, theirs.AgentLoopBase) and not inspect.isabstract(kind)
    assert theirs._agent_loop_registry["rehearsal"]["_target_"] == f"{__name__}.RehearsalLoop"
    loop = kind.__new__(kind)  # its constructor loads a model's files
    loop.server_manager = stubs.VerlServers(Solver(run, model))
    loop.rollout_config = SimpleNamespace(prompt_length=15_000, response_length=5_000)
    output = await loop.run({"temperature": 1.0}, task=TASK)
    assert isinstance(output, theirs.AgentLoopOutput)
    tensors = output.as_dict()
    assert float(tensors["rm_scores"].sum()) == 1.0
    assert tensors["responses"].shape == tensors["rollout_log_probs"].shape
    run.close()
    return f"AgentLoopOutput with {len(output.response_ids)} tokens"


async def skyrl(work: Path, model: Path) -> str:
    """SkyRL's own validation of a GeneratorOutput, with windows."""
    # SkyRL 0.3.0 allows Python 3.11, where pydantic refuses its TypedDicts from `typing`.
    vars(typing)["TypedDict"] = import_module("typing_extensions").TypedDict
    from skyrl.train.generators.base import GeneratorInterface, GeneratorOutput, TrajectoryID
    from skyrl.train.utils.trainer_utils import validate_generator_output

    from rehearsal_room.bridges.trainers.skyrl import RehearsalGenerator

    run = stubs.run_in(work / "skyrl", "last:1")
    generator = RehearsalGenerator(run, model, stubs.SkyClient(Solver(run, model)))
    ids = [TrajectoryID("a", number) for number in range(2)]
    batch: Any = {
        "prompts": [[], []],
        "env_extras": [{"task": TASK}] * 2,
        "sampling_params": {"max_generate_length": 300},
        "trajectory_ids": ids,
    }
    output = await generator.generate(batch)
    assert set(output) <= set(GeneratorOutput.__annotations__)
    asked = set(inspect.signature(GeneratorInterface.generate).parameters)
    assert asked <= set(inspect.signature(RehearsalGenerator.generate).parameters)
    run.close()
    validate_generator_output(2, output, step_wise=True)
    return f"{len(output['response_ids'])} rows of two episodes are valid"


async def areal(work: Path, model: Path) -> str:
    """AReaL's requests, responses and settings, with and without windows."""
    from areal.api import ModelRequest, ModelResponse, RolloutWorkflow
    from areal.api.cli_args import GenerationHyperparameters

    asked = inspect.signature(RolloutWorkflow.arun_episode)
    assert list(asked.parameters) == list(
        inspect.signature(RehearsalWorkflow.arun_episode).parameters
    )
    rows = []
    for history in ("full", "last:1"):
        run = stubs.run_in(work / f"areal-{history}", history)
        solver = Solver(run, model)

        async def agenerate(request: Any, solver: Solver = solver) -> Any:
            assert isinstance(request, ModelRequest) and request.gconfig.n_samples == 1
            assert request.gconfig.stop_token_ids
            ids, logprobs = solver.sample(request.input_ids)
            return ModelResponse(request.input_ids, ids, logprobs, [7] * len(ids))

        config = GenerationHyperparameters(max_new_tokens=256, max_tokens=20_000)
        workflow = RehearsalWorkflow(run, model, config)
        batch = await workflow.arun_episode(SimpleNamespace(agenerate=agenerate), {"task": TASK})
        assert batch is not None and set(batch["rewards"].tolist()) == {1.0}
        assert int(batch["loss_mask"].sum()) == sum(map(len, solver.sampled))
        rows.append(len(batch["rewards"]))
        run.close()
    assert rows[0] == 1 < rows[1], rows
    return f"rows of an episode: full {rows[0]}, last:1 {rows[1]}"


async def main(work: Path, *names: str) -> int:
    """Run the checks of these names; the exit status."""
    model = work / "model"
    write_tokenizer(model)
    failed = 0
    checks: dict[str, Check] = {"areal": areal, "skyrl": skyrl, "tinker": tinker, "verl": verl}
    for check in map(checks.__getitem__, names):
        try:
            text = await check(work, model)
        except Exception as exc:
            failed, text = 1, f"FAILED: {type(exc).__name__}: {exc}"
        sys.stdout.write(f"{check.__name__}: {text}\n")
    return failed


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:])))
