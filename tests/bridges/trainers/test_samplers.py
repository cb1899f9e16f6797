"""The harness samples: episodes with the sampler of each trainer, and the shapes that it takes."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.trainers.areal import RehearsalWorkflow, rows_of
from rehearsal_room.bridges.trainers.player import Member, SamplerPlayer
from rehearsal_room.bridges.trainers.segments import (
    Segment,
    TrainerEpisode,
    UnjudgedError,
    sole_segment,
)
from rehearsal_room.bridges.trainers.skyrl import RehearsalGenerator
from rehearsal_room.bridges.trainers.slime import generate_function
from rehearsal_room.bridges.trainers.tinker import RehearsalEnv
from rehearsal_room.bridges.trainers.verl import loop_class
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.policies.token_agent import GeneratedTokens, Sampling
from tests.bridges.trainers import stubs
from tests.bridges.trainers.stubs import TASK, Solver
from tests.support.tiny_model import write_tokenizer


@pytest.fixture
def anyio_backend() -> str:
    """Trainers run on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer."""
    folder = tmp_path_factory.mktemp("model")
    write_tokenizer(folder)
    return folder


@pytest.fixture(params=["full", "last:1"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BackgroundRun]:
    """A run with and without windows."""
    made = stubs.run_in(tmp_path, request.param)
    yield made
    made.close()


@pytest.fixture
def full_run(tmp_path: Path) -> Iterator[BackgroundRun]:
    made = stubs.run_in(tmp_path)
    yield made
    made.close()


async def _ask(solver: Solver, prompt: list[int], _: Sampling) -> GeneratedTokens:
    return GeneratedTokens(*solver.sample(prompt), weights=stubs.VERSION)


async def played(run: BackgroundRun, model: Path, solver: Solver) -> TrainerEpisode:
    player = SamplerPlayer("slime", run, model, context=20_000)
    return await player.play(TASK, partial(_ask, solver))


async def test_what_is_trained_is_what_was_sampled(run: BackgroundRun, model: Path) -> None:
    """The segments have every sampled id once, in order, under a prompt that was shown."""
    solver = Solver(run, model)
    episode = await played(run, model, solver)
    assert (episode.reward, episode.label, episode.ending) == (1.0, "completed", "answered")
    trained = [
        id
        for one in episode.segments
        for id, sampled in zip(one.response_ids, one.mask, strict=True)
        if sampled
    ]
    assert trained == [id for ids in solver.sampled for id in ids]
    for one in episode.segments:
        assert one.prompt_ids in solver.prompts
        assert len(one.response_ids) == len(one.mask) == len(one.logprobs)
        assert set(one.logprobs) <= {0.0, -0.25}
        assert one.weights == stubs.VERSION
    is_full = run.options.history.spec == "full"
    assert len(episode.segments) == (1 if is_full else solver.num_replies - 1)


async def test_a_window_begins_a_segment(run: BackgroundRun, model: Path) -> None:
    """Each segment is the longest sequence of prompts that continue each other."""
    solver = Solver(run, model)
    episode = await played(run, model, solver)
    joined = [one.prompt_ids + one.response_ids for one in episode.segments]
    for prompt, sampled in zip(solver.prompts, solver.sampled, strict=True):
        whole = prompt + sampled
        assert any(sequence[: len(whole)] == whole for sequence in joined)


async def test_an_engine_that_fails(full_run: BackgroundRun, model: Path) -> None:
    """An exception of the trainer's function ends the episode, which must not be trained."""
    with pytest.raises(UnjudgedError, match=r"policy_error.*slime: ConnectionError: the engine is"):
        await played(full_run, model, Solver(full_run, model, fails=True))


async def test_slime(run: BackgroundRun, model: Path) -> None:
    """An episode is a list of samples with one rollout_id, one for each segment."""
    solver = Solver(run, model)
    generate = generate_function(run, model, post=stubs.slime_post(solver))
    args = SimpleNamespace(
        sglang_router_ip="router", sglang_router_port=30_000, n_samples_per_prompt=4
    )
    sample = stubs.SlimeSample(prompt=TASK)
    samples = await generate(args, sample, {"max_new_tokens": 512, "temperature": 1.0})
    assert {one.rollout_id for one in samples} == {5}
    for one in samples:
        assert len(one.loss_mask) == len(one.rollout_log_probs) == one.response_length
        assert (one.reward, one.status) == (1.0, stubs.SlimeSample.Status.COMPLETED)
        assert one.weight_versions == [stubs.VERSION]
    assert sum(sum(one.loss_mask) for one in samples) == sum(map(len, solver.sampled))
    assert sample.tokens == [] and sample.reward is None  # the sample itself is unchanged


async def test_slime_leaves_out_what_was_not_judged(full_run: BackgroundRun, model: Path) -> None:
    """An episode without a reward is an aborted sample, which slime removes."""
    post = stubs.slime_post(Solver(full_run, model, fails=True))
    generate = generate_function(full_run, model, post=post)
    args = SimpleNamespace(
        sglang_router_ip="router", sglang_router_port=30_000, n_samples_per_prompt=1
    )
    (one,) = await generate(args, stubs.SlimeSample(metadata={"task": TASK}), {})
    assert (one.status, one.remove_sample) == (stubs.SlimeSample.Status.ABORTED, True)


async def test_skyrl(run: BackgroundRun, model: Path) -> None:
    """Rows of one episode are neighbours, the last is marked, and has the reward at its end."""
    solver = Solver(run, model)
    generator = RehearsalGenerator(run, model, stubs.SkyClient(solver), context=20_000)
    ids = [SimpleNamespace(instance_id="a", repetition_id=number) for number in range(2)]
    batch = {
        "prompts": [[], []],
        "env_extras": [{"task": TASK}] * 2,
        "sampling_params": {"max_generate_length": 300},
        "trajectory_ids": ids,
    }
    output = await generator.generate(batch)
    count = len(output["response_ids"])
    for name in ("prompt_token_ids", "rewards", "loss_masks", "rollout_logprobs", "stop_reasons"):
        assert len(output[name]) == count
    assert output["is_last_step"].count(True) == 2 and output["is_last_step"][-1]
    assert output["trajectory_ids"] == sorted(output["trajectory_ids"], key=ids.index)
    lasts = [row[-1] for row in output["rewards"]]
    assert lasts == [float(last) for last in output["is_last_step"]]
    for row in zip(output["response_ids"], output["loss_masks"], output["rewards"], strict=True):
        assert len({len(one) for one in row}) == 1


def test_skyrl_refuses_windows_without_steps(tmp_path: Path, model: Path) -> None:
    """Without step-wise trajectories a windowed history is refused, with what to set."""
    run = stubs.run_in(tmp_path, "last:2")
    with pytest.raises(SettingsError, match="step_wise_trajectories = true"):
        RehearsalGenerator(run, model, None, step_wise=False)


async def test_verl(full_run: BackgroundRun, model: Path) -> None:
    """An episode is one AgentLoopOutput, cut at the response's length; all its requests go to one
    server."""
    solver = Solver(full_run, model)
    servers = stubs.VerlServers(solver)
    kind = loop_class(full_run, model, module="loops", name="rehearsal", verl=stubs.VERL)
    loop = kind(servers, prompt_length=15_000, response_length=5_000)
    assert (kind.__module__, kind.__qualname__) == ("loops", "RehearsalLoop")
    (output,) = await loop.run({"temperature": 1.0}, task=TASK)
    assert output.reward_score == 1.0
    assert output.num_turns == 2 * solver.num_replies
    sizes = {len(output.response_ids), len(output.response_mask), len(output.response_logprobs)}
    assert len(sizes) == 1 and sum(output.response_mask) == sum(map(len, solver.sampled))
    assert len(servers.requests) == 1


async def test_verl_of_one_sequence(full_run: BackgroundRun, model: Path) -> None:
    """verl's older trainer takes one AgentLoopOutput; a windowed history is refused by a sentence
    that says why, and what carries it."""
    kind = loop_class(full_run, model, module="loops", name="rehearsal", verl=stubs.VERL)
    servers = stubs.VerlServers(Solver(full_run, model))
    loop = kind(servers, prompt_length=15_000, response_length=5_000, use_v1=False)
    assert (await loop.run({}, task=TASK)).reward_score == 1.0


async def test_verl_leaves_out_what_was_not_judged(full_run: BackgroundRun, model: Path) -> None:
    """An episode without a reward is an empty list, which verl leaves out; its older trainer has
    nothing of the kind."""
    kind = loop_class(full_run, model, module="loops", name="rehearsal", verl=stubs.VERL)
    servers = stubs.VerlServers(Solver(full_run, model, fails=True))
    lengths = {"prompt_length": 15_000, "response_length": 5_000}
    assert await kind(servers, **lengths).run({}, task=TASK) == []
    with pytest.raises(UnjudgedError):
        await kind(servers, **lengths, use_v1=False).run({}, task=TASK)


def test_verl_refuses_windows_without_lists(tmp_path: Path, model: Path) -> None:
    """verl's older trainer refuses a windowed history by a sentence that says why, and what carries
    it."""
    run = stubs.run_in(tmp_path, "last:3")
    kind = loop_class(run, model, module="loops", name="rehearsal", verl=stubs.VERL)
    with pytest.raises(SettingsError, match=r"use_v1 = false\. Found 'last:3': .*slime") as raised:
        kind(None, prompt_length=1, response_length=1, use_v1=False)
    assert "verl with trainer.use_v1 = true" in str(raised.value)


async def test_areal(run: BackgroundRun, model: Path) -> None:
    """A batch has one row for each segment, padded; versions are -1 where nothing was sampled."""
    solver = Solver(run, model)
    api = SimpleNamespace(ModelRequest=stubs.ArealRequest)
    workflow = RehearsalWorkflow(run, model, stubs.ArealConfig(), api=api)
    batch = await workflow.arun_episode(stubs.ArealEngine(solver), {"task": TASK})
    assert batch is not None
    shapes = {name: tuple(value.shape) for name, value in batch.items()}
    rewards = shapes.pop("rewards")
    assert len(set(shapes.values())) == 1 and rewards == shapes["input_ids"][:1]
    assert int(batch["loss_mask"].sum()) == sum(map(len, solver.sampled))
    assert ((batch["versions"] == int(stubs.VERSION)) == (batch["loss_mask"] == 1)).all()
    assert (batch["loss_mask"] <= batch["attention_mask"]).all()


async def test_areal_rejects_what_was_not_judged(full_run: BackgroundRun, model: Path) -> None:
    """An episode without a reward is None, which AReaL leaves out."""
    api = SimpleNamespace(ModelRequest=stubs.ArealRequest)
    workflow = RehearsalWorkflow(full_run, model, stubs.ArealConfig(), api=api)
    engine = stubs.ArealEngine(Solver(full_run, model, fails=True))
    assert await workflow.arun_episode(engine, {"task": TASK}) is None


async def test_tinker(run: BackgroundRun, model: Path) -> None:
    """Each turn's observation is its own window; the last step has the reward."""
    solver = Solver(run, model)
    player = SamplerPlayer("tinker-cookbook", run, model, context=20_000)
    env = RehearsalEnv(player, TASK, Member(), types=stubs.TINKER)
    seen, stop = await env.initial_observation()
    assert stop == list(player.chat.end_ids)
    steps: list[Any] = []
    while not steps or not steps[-1].episode_done:
        ids, _ = solver.sample(seen.ids)
        steps.append(await env.step(ids, extra={"stop_reason": "stop"}))
        seen = steps[-1].next_observation
    assert [step.reward for step in steps] == [0.0] * (solver.num_replies - 1) + [1.0]
    assert steps[-1].metrics["completed"] == 1.0


async def test_tinker_environments_can_be_left(full_run: BackgroundRun, model: Path) -> None:
    """An environment that is given up in the middle ends its episode as cancelled."""
    player = SamplerPlayer("tinker-cookbook", full_run, model, context=20_000)
    env = RehearsalEnv(player, TASK, Member(), types=stubs.TINKER)
    await env.initial_observation()
    env.cancel()
    full_run.close()
    with open_reader(Path(str(full_run).split()[-1].rstrip(">"))) as reader:
        assert [str(row.ending) for row in reader.episodes()] == ["cancelled"]


def test_an_episode_of_several_sequences_is_not_one() -> None:
    """A trainer of one sequence refuses an episode whose prompts do not continue each other."""
    one = Segment([1], [2], [1], [-0.5], 1.0, "")
    episode = TrainerEpisode(1.0, (one, one), "answered", "completed", 2, False)
    with pytest.raises(ValueError, match="verl takes one sequence an episode, but this one has 2"):
        sole_segment(episode, trainer="verl")


def test_rows_of_areal() -> None:
    """A row has prompt and response, with mask, log-probabilities and versions of the response."""
    one = Segment([1, 2], [3, 9, 4], [1, 0, 1], [-0.5, 0.0, -0.25], 1.0, "6")
    assert rows_of((one,)) == {
        "input_ids": [[1, 2, 3, 9, 4]],
        "loss_mask": [[0, 0, 1, 0, 1]],
        "logprobs": [[0.0, 0.0, -0.5, 0.0, -0.25]],
        "versions": [[-1, -1, 6, -1, 6]],
        "attention_mask": [[True] * 5],
    }
