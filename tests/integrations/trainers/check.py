"""Episodes through the types and loops of AReaL, SkyRL, tinker-cookbook and verl themselves. Only
their engines are stand-ins: a sampler that solves a task of the mini world; or, behind agents of
the user's own, the model of policy `local`, of which each sampled reply must be in exactly one of
the trainer's sequences, in its context and with its log-probabilities.

    PYTHON -m tests.integrations.trainers.check FOLDER NAME...

Each of them has a door of its own, whose Python runs this module.
"""

import asyncio
import inspect
import sys
import typing
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.trainers.areal import RehearsalAgent, RehearsalWorkflow
from rehearsal_room.bridges.trainers.player import Member, SamplerPlayer
from tests.bridges.trainers import stubs
from tests.bridges.trainers.branching import (
    OWN,
    LocalSampler,
    Row,
    areal_rows,
    local_sampler,
    replies_in,
    skyrl_rows,
)
from tests.bridges.trainers.stubs import TASK, Solver
from tests.support.model_server import ModelServer, ReceivedRequest, response
from tests.support.tiny_model import write_model

Check = Callable[[Path, Path], Coroutine[Any, Any, str]]
Rows = Callable[[BackgroundRun, LocalSampler], Coroutine[Any, Any, list[Row]]]
AGENTS = ("compacts", "two_helpers")


async def own_agents(work: Path, model: Path, rows_of: Rows) -> str:
    """What a trainer gets of the agents, against what was sampled for them."""
    words = []
    for agent in AGENTS:
        (work / agent).mkdir(parents=True)
        run = stubs.run_in(work / agent, agent=OWN + agent)
        with local_sampler(model) as sampler:
            rows = await rows_of(run, sampler)
        run.close()
        sampled = Counter(sampler.sampled)
        assert replies_in(rows) == sampled, agent
        assert len(rows) > 2, agent
        words.append(f"{agent} {sampled.total()} replies in {len(rows)} sequences")
    return "each once: " + ", ".join(words)


async def tinker(work: Path, model: Path) -> str:
    """The cookbook's own rollout loop and its making of training data, with windows."""
    from tinker_cookbook.completers import TokensWithLogprobs
    from tinker_cookbook.rl.data_processing import assemble_training_data, trajectory_to_data
    from tinker_cookbook.rl.rollouts import do_group_rollout, do_single_rollout
    from tinker_cookbook.rl.types import PARSE_ERROR_MASKED_METRIC_KEY

    from rehearsal_room.bridges.trainers.tinker import LEFT_OUT, RehearsalEnv, RehearsalGroup

    assert LEFT_OUT == PARSE_ERROR_MASKED_METRIC_KEY
    torch: Any = import_module("torch")

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

    async def rows_of(run: BackgroundRun, sampler: LocalSampler) -> list[Row]:
        """A whole group by the cookbook: its rollouts, its advantages, its training data."""

        async def complete(shown: Any, *_: Any, **__: Any) -> Any:
            ids, logprobs = sampler.sample(shown.to_ints())
            return TokensWithLogprobs(tokens=ids, maybe_logprobs=logprobs)

        player = SamplerPlayer("tinker-cookbook", run, model, context=20_000)
        builder: Any = RehearsalGroup(player, TASK, 2, "g0")
        completer: Any = complete
        group = await do_group_rollout(builder, completer)
        assert group.get_total_rewards() == [1.0, 1.0]
        data, _ = assemble_training_data([group], [torch.tensor([1.0, 1.0])])
        rows: list[Row] = []
        for datum in data:
            fields = {name: one.to_torch().tolist() for name, one in datum.loss_fn_inputs.items()}
            assert fields["advantages"] == fields["mask"]
            ids = [*datum.model_input.to_ints()[:1], *fields["target_tokens"]]
            rows.append((ids, [0, *map(int, fields["mask"])], [0.0, *fields["logprobs"]]))
        return rows

    return f"data: full {found[0]}, last:1 {found[1]}; {await own_agents(work, model, rows_of)}"


async def verl(work: Path, model: Path) -> str:
    """verl's AgentLoopBase, AgentLoopOutput and register."""
    from verl.experimental.agent_loop import agent_loop as theirs

    from rehearsal_room.bridges.trainers.verl import agent_loop

    run = stubs.run_in(work / "verl")
    kind = agent_loop(run, model, name="rehearsal", module=__name__)
    assert issubclass(kind, theirs.AgentLoopBase) and not inspect.isabstract(kind)
    assert theirs._agent_loop_registry["rehearsal"]["_target_"] == f"{__name__}.RehearsalLoop"

    def loop_of(kind: Any, sampler: Any, *, use_v1: bool) -> Any:
        loop = kind.__new__(kind)  # its constructor loads a model's files
        loop.config = SimpleNamespace(trainer=SimpleNamespace(use_v1=use_v1))
        loop.server_manager = stubs.VerlServers(sampler)
        loop.rollout_config = SimpleNamespace(prompt_length=15_000, response_length=5_000)
        return loop

    solver = Solver(run, model)
    output = await loop_of(kind, solver, use_v1=False).run({"temperature": 1.0}, task=TASK)
    assert isinstance(output, theirs.AgentLoopOutput)
    tensors = output.as_dict()
    assert float(tensors["rm_scores"].sum()) == 1.0
    assert tensors["responses"].shape == tensors["rollout_log_probs"].shape
    run.close()

    async def rows_of(run: BackgroundRun, sampler: LocalSampler) -> list[Row]:
        """What verl's newer trainer puts into its queue."""
        kind = agent_loop(run, model, name="rehearsal", module=__name__)
        outputs = await loop_of(kind, sampler, use_v1=True).run({}, task=TASK)
        stored = await _stored(theirs, outputs)
        rows: list[Row] = []
        for one in stored:
            ids, mask = one["input_ids"].tolist(), one["loss_mask"].tolist()
            before = [0] * len(one["prompts"])
            assert float(one["rm_scores"].sum()) == 1.0
            rows.append((ids, before + mask, before + one["rollout_log_probs"].tolist()))
        return rows

    one = f"AgentLoopOutput with {len(output.response_ids)} tokens"
    return f"{one}; {await own_agents(work, model, rows_of)}"


async def _stored(theirs: Any, outputs: list[Any]) -> Any:
    """The rows that verl's worker of its newer trainer makes of an episode's outputs; only the
    queue is a stand-in. Its package is not imported: that asks for a GPU stack."""
    path = Path(theirs.__file__).parents[2] / "trainer/ppo/v1/agent_loop_tq.py"
    spec = spec_from_file_location("agent_loop_tq", path)
    assert spec is not None and spec.loader is not None
    newer: Any = module_from_spec(spec)
    spec.loader.exec_module(newer)
    put: list[Any] = []

    async def keep(*, keys: list[str], fields: Any, **_: Any) -> None:
        assert keys == [f"u_0_{number}" for number in range(len(outputs))]
        put.extend(fields)

    newer.tq = SimpleNamespace(async_kv_batch_put=keep)
    kind = newer.AgentLoopWorkerTQ.__ray_metadata__.modified_class
    worker = kind.__new__(kind)  # its constructor asks for a cluster
    worker.processor = worker.reward_loop_worker_handles = None
    worker.distillation_enabled = False
    about = {"uid": "u", "session_id": 0, "global_steps": 1}
    await worker._agent_loop_postprocess(outputs, False, **about)
    return put


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

    async def rows_of(run: BackgroundRun, sampler: LocalSampler) -> list[Row]:
        generator = RehearsalGenerator(run, model, stubs.SkyClient(sampler))
        output: Any = await generator.generate({**batch, "sampling_params": {}})
        validate_generator_output(2, output, step_wise=True)
        assert sum(map(sum, output["rewards"])) == 2.0
        return skyrl_rows(output)

    valid = f"{len(output['response_ids'])} rows of two episodes are valid"
    return f"{valid}; {await own_agents(work, model, rows_of)}"


async def areal(work: Path, model: Path) -> str:
    """AReaL's requests, responses and settings, with and without windows."""
    from areal.api import ModelRequest, ModelResponse, RolloutWorkflow
    from areal.api.cli_args import GenerationHyperparameters
    from areal.experimental.openai.client import ArealOpenAI
    from areal.utils.data import concat_padded_tensors

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

    async def rows_of(run: BackgroundRun, sampler: LocalSampler) -> list[Row]:
        async def agenerate(request: Any) -> Any:
            ids, logprobs = sampler.sample(request.input_ids)
            return ModelResponse(request.input_ids, ids, logprobs, [7] * len(ids))

        config = GenerationHyperparameters(max_new_tokens=256, max_tokens=20_000)
        workflow = RehearsalWorkflow(run, model, config)
        batch = await workflow.arun_episode(SimpleNamespace(agenerate=agenerate), {"task": TASK})
        assert batch is not None and set(batch["rewards"].tolist()) == {1.0}
        whole = concat_padded_tensors([batch, batch])  # as AReaL joins episodes
        return areal_rows({name: one[: len(batch["rewards"])] for name, one in whole.items()})

    tokenizer = import_module("transformers").AutoTokenizer.from_pretrained(model)

    async def captured(run: BackgroundRun, sampler: LocalSampler) -> list[Row]:
        """What AReaL's client captures of requests to its proxy, which is a stand-in."""

        async def agenerate(request: Any) -> Any:
            ids, logprobs = sampler.sample(request.input_ids)
            found = request.input_ids, ids, logprobs, [7] * len(ids)
            return ModelResponse(*found, stop_reason="length", tokenizer=tokenizer)

        engine: Any = SimpleNamespace(agenerate=agenerate)
        client = ArealOpenAI(engine, tokenizer, chat_template_type="hf")
        async with ModelServer(_Captures(client)) as server:
            proxy = {"base_url": server.url, "api_key": "k", "http_client": None}
            reward = await RehearsalAgent(run).run({"task": TASK}, **proxy)
        client.set_last_reward(reward)
        client.apply_reward_discount(1.0)
        found = client.export_interactions("individual").values()
        batch = concat_padded_tensors([one.to_tensor_dict() for one in found])
        assert set(batch["rewards"].tolist()) == {1.0}
        return areal_rows({**batch, "attention_mask": batch["attention_mask"].int()})

    workflow = await own_agents(work, model, rows_of)
    agent = await own_agents(work / "proxy", model, captured)
    return f"rows: full {rows[0]}, last:1 {rows[1]}; workflow {workflow}; its proxy {agent}"


@dataclass(frozen=True)
class _Captures:
    """AReaL's client behind the chat API."""

    client: Any

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        taken = ("messages", "max_tokens", "stop")
        body = {name: request.body[name] for name in taken if name in request.body}
        found = await self.client.chat.completions.create(**body)
        writer.write(response(200, found.model_dump_json().encode()))
        return True


async def main(work: Path, *names: str) -> int:
    """Run the checks of these names; the exit status."""
    model = work / "model"
    write_model(model)
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
