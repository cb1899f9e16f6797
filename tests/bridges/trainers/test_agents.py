"""Agents of one's own as the rollouts of trainers: the model is that of policy `local`, and what a
trainer gets has each reply that it sampled once, in its context. The trainers' types are stand-ins
here (see stubs); tests/integrations/trainers has the packages themselves."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.run_options import RunOptions
from rehearsal_room.bridges.trainers.areal import RehearsalAgent, RehearsalWorkflow
from rehearsal_room.bridges.trainers.player import Member, SamplerPlayer
from rehearsal_room.bridges.trainers.segments import UnjudgedError
from rehearsal_room.bridges.trainers.skyrl import RehearsalGenerator
from rehearsal_room.bridges.trainers.slime import generate_function
from rehearsal_room.bridges.trainers.tinker import RehearsalEnv
from rehearsal_room.bridges.trainers.trl import environments, meta_environment
from rehearsal_room.bridges.trainers.verl import loop_class
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.policies.token_agent import GeneratedTokens, Sampling
from tests.bridges.trainers import stubs
from tests.bridges.trainers.branching import (
    OWN,
    LocalSampler,
    Row,
    areal_rows,
    local_sampler,
    replies_in,
    sampled,
    skyrl_rows,
    verl_rows,
)
from tests.bridges.trainers.stubs import TASK
from tests.support.model_server import Completes, ModelServer
from tests.support.paths import LIBRARY
from tests.support.tiny_model import write_model

@pytest.fixture
def anyio_backend() -> str:
    """Trainers run on asyncio."""
    return "asyncio"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def sampler(model: Path) -> Iterator[LocalSampler]:
    with local_sampler(model) as opened:
        yield opened


Made = Callable[..., BackgroundRun]


@pytest.fixture
def run_of(tmp_path: Path) -> Iterator[Made]:
    """Makes a run of an agent of tests.harness.agents.own."""
    made: list[BackgroundRun] = []

    def make(agent: str, history: str = "full") -> BackgroundRun:
        made.append(stubs.run_in(tmp_path, history, OWN + agent))
        return made[-1]

    yield make
    for one in made:
        one.close()


BRANCHING = pytest.mark.parametrize("agent", ["compacts", "two_helpers"])


def assert_each_once(rows: list[Row], sampler: LocalSampler) -> None:
    """The rows have what the server sampled, and nothing else: more rows than one."""
    assert replies_in(rows) == Counter(sampler.sampled)
    assert len(rows) > 2


@BRANCHING
async def test_areal(agent: str, run_of: Made, model: Path, sampler: LocalSampler) -> None:
    """A row of the batch for each branch, all with the episode's reward."""
    api = SimpleNamespace(ModelRequest=stubs.ArealRequest)
    workflow = RehearsalWorkflow(run_of(agent), model, stubs.ArealConfig(), api=api)
    engine = stubs.ArealEngine(sampler)
    batch = await workflow.arun_episode(engine, {"task": TASK})
    assert batch is not None
    assert_each_once(areal_rows(batch), sampler)
    assert set(batch["rewards"].tolist()) == {1.0}


@BRANCHING
async def test_skyrl(agent: str, run_of: Made, model: Path, sampler: LocalSampler) -> None:
    """A row for each branch; the reward is at the end of an episode's last."""
    generator = RehearsalGenerator(run_of(agent), model, stubs.SkyClient(sampler))
    batch = {
        "prompts": [[], []],
        "env_extras": [{"task": TASK}] * 2,
        "trajectory_ids": [SimpleNamespace(instance_id="a", repetition_id=n) for n in range(2)],
    }
    output = await generator.generate(batch)
    assert_each_once(skyrl_rows(output), sampler)
    lasts = [row[-1] for row in output["rewards"]]
    assert lasts == [float(last) for last in output["is_last_step"]]
    assert sum(lasts) == 2.0


@BRANCHING
async def test_slime(agent: str, run_of: Made, model: Path, sampler: LocalSampler) -> None:
    """A sample for each branch, siblings with one rollout_id."""
    generate = generate_function(run_of(agent), model, post=stubs.slime_post(sampler))
    args = SimpleNamespace(
        sglang_router_ip="router", sglang_router_port=30_000, n_samples_per_prompt=4
    )
    samples = await generate(args, stubs.SlimeSample(prompt=TASK), {"max_new_tokens": 512})
    assert {(one.rollout_id, one.reward) for one in samples} == {(5, 1.0)}
    rows = []
    for one in samples:
        before = len(one.tokens) - one.response_length
        rows.append(
            (one.tokens, [0] * before + one.loss_mask, [0.0] * before + one.rollout_log_probs)
        )
    assert_each_once(rows, sampler)


@BRANCHING
async def test_verl(agent: str, run_of: Made, model: Path, sampler: LocalSampler) -> None:
    """With the newer trainer an AgentLoopOutput for each branch, all with the reward."""
    run = run_of(agent)
    kind = loop_class(run, model, module="loops", name="rehearsal", verl=stubs.VERL)
    loop = kind(stubs.VerlServers(sampler), prompt_length=15_000, response_length=5_000)
    outputs = await loop.run({}, task=TASK)
    assert {one.reward_score for one in outputs} == {1.0}
    assert_each_once(verl_rows(outputs), sampler)


@BRANCHING
async def test_tinker(agent: str, run_of: Made, model: Path, sampler: LocalSampler) -> None:
    """Each request is a turn with its own prompt, also of helpers that ask at once; the last turn
    has the reward."""
    player = SamplerPlayer("tinker-cookbook", run_of(agent), model, context=20_000)
    env = RehearsalEnv(player, TASK, Member(), types=stubs.TINKER)
    seen, _ = await env.initial_observation()
    steps: list[Any] = []
    taken = Counter[Any]()
    while not steps or not steps[-1].episode_done:
        ids, logprobs = sampler.sample(seen.ids)
        taken[sampled(seen.ids, ids, logprobs)] += 1
        steps.append(await env.step(ids))
        seen = steps[-1].next_observation
    assert [step.reward for step in steps[:-1]] == [0.0] * (len(steps) - 1)
    assert steps[-1].reward == 1.0
    logged = logged_replies(player.run)
    assert sorted(logged) == sorted((context, ids) for context, ids, _ in taken.elements())


def logged_replies(run: BackgroundRun) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The context and the ids of each reply in the log of a run, which it closes."""
    from rehearsal_room.learner.data.trajectory_samples import rollout_of

    run.close()
    with open_reader(Path(str(run).split()[-1].rstrip(">"))) as reader:
        rollouts = [rollout_of(one, where="log") for one in reader.trajectories()]
    return [
        (tuple(one.prompt.tolist()), tuple(one.tokens.tolist()))
        for rollout in rollouts
        for one in rollout.samples
    ]


async def test_equal_replies_of_two_branches(
    run_of: Made, model: Path, sampler: LocalSampler
) -> None:
    """Two helpers who are asked the same, and are replied the same, are two branches: none of their
    replies is left out."""
    player = SamplerPlayer("slime", run_of("two_helpers"), model, context=20_000)
    episode = await player.play(TASK, ask_of(sampler))
    assert sorted(Counter(sampler.sampled).values()) == [1, 1, 1, 2, 2]
    assert replies_in(rows_of(episode)) == Counter(sampler.sampled)


def rows_of(episode: TrainerEpisode) -> list[Row]:
    rows: list[Row] = []
    for one in episode.segments:
        size = len(one.prompt_ids)
        ids = one.prompt_ids + one.response_ids
        rows.append((ids, [0] * size + one.mask, [0.0] * size + one.logprobs))
    return rows


def ask_of(sampler: LocalSampler) -> Generate:
    async def ask(prompt: list[int], _: Sampling) -> GeneratedTokens:
        return GeneratedTokens(*sampler.sample(prompt))

    return ask
