"""Agents of the user's own as the rollouts of trainers: the model is that of policy `local`, and
what a trainer gets has each reply that it sampled once, in its context. The trainers' types are
stand-ins here, written from their sources (see stubs); tests/integrations/trainers has the packages
themselves, except for slime and rLLM, which are on no index."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.run_options import RunOptions
from rehearsal_room.bridges.trainers.areal import RehearsalAgent, RehearsalWorkflow
from rehearsal_room.bridges.trainers.loop_backend import Generate
from rehearsal_room.bridges.trainers.player import Member, SamplerPlayer
from rehearsal_room.bridges.trainers.rllm import RehearsalFlow
from rehearsal_room.bridges.trainers.segments import TrainerEpisode, UnjudgedError
from rehearsal_room.bridges.trainers.skyrl import RehearsalGenerator
from rehearsal_room.bridges.trainers.slime import generate_function
from rehearsal_room.bridges.trainers.tinker import LEFT_OUT, RehearsalEnv
from rehearsal_room.bridges.trainers.trl import environments, meta_environment
from rehearsal_room.bridges.trainers.verl import loop_class
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.dialects.hermes import Hermes
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.policies.token_agent import GeneratedTokens, Sampling
from rehearsal_room.learner.data.trajectory_samples import rollout_of
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
from tests.bridges.trainers.test_play import TYPES
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


REFUSED = " takes one sequence an episode.*An agent of your own.*leave the agent out.*slime"
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
    run.close()
    with open_reader(Path(str(run).split()[-1].rstrip(">"))) as reader:
        rollouts = [rollout_of(one, where="log") for one in reader.trajectories()]
    return [
        (tuple(one.prompt.tolist()), tuple(one.tokens.tolist()))
        for rollout in rollouts
        for one in rollout.samples
    ]


async def test_rllm(run_of: Made) -> None:
    """Each request of the agent reaches the gateway of rLLM, which makes a step of it, as the agent
    wrote it; the trajectory has the episode's reward."""
    flow = RehearsalFlow(run_of("two_helpers"), types=TYPES)
    async with ModelServer(Completes("Fine.")) as server:
        config = SimpleNamespace(base_url=server.url, model="policy", session_uid="7:0")
        episode = await flow.arun({"task": TASK}, config)
    assert (episode.is_correct, episode.trajectories[0].reward) == (True, 1.0)
    words = [[one["content"] for one in sent.body["messages"]] for sent in server.requests]
    ends = Counter(tuple(one[1:]) for one in words)
    expected = {(): 4, ("Fine.", "go on"): 2}  # two helpers, the agent, and one with stop words
    assert ends == expected | {("Fine.", f"{way} way"): 1 for way in ("one", "another")}
    assert [sent.body["stop"] for sent in server.requests if "stop" in sent.body] == [["."]]


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


async def test_a_crash_is_a_failure_of_its_own(
    run_of: Made, model: Path, sampler: LocalSampler
) -> None:
    """An agent that fails after the model's replies has the reward 0, and they are trained."""
    player = SamplerPlayer("slime", run_of("crashes_late"), model, context=20_000)
    episode = await player.play(TASK, ask_of(sampler))
    assert (episode.reward, episode.ending, episode.label) == (0.0, "agent_failed", "agent_error")
    assert replies_in(rows_of(episode)) == Counter(sampler.sampled)
    assert len(sampler.sampled) == 1


@pytest.mark.parametrize(("agent", "why"), [("silent", "answered"), ("blank", "no plan")])
async def test_nothing_was_sampled(
    agent: str, why: str, run_of: Made, model: Path, sampler: LocalSampler
) -> None:
    """An agent that does not ask its model, whether it solves the task or crashes, gives the
    trainer nothing, neither tokens nor a reward; that is said."""
    run = run_of(agent)
    player = SamplerPlayer("slime", run, model, context=20_000)
    with pytest.raises(UnjudgedError, match="its agent got no reply of the model") as raised:
        await player.play(TASK, ask_of(sampler))
    assert why in str(raised.value)
    env = RehearsalEnv(player, TASK, Member(), types=stubs.TINKER)
    with pytest.raises(UnjudgedError, match="its agent got no reply of the model"):
        await env.initial_observation()
    generator = RehearsalGenerator(run, model, stubs.SkyClient(sampler))
    output = await generator.generate({"prompts": [[]], "env_extras": [{"task": TASK}]})
    assert (output["loss_masks"], output["rewards"]) == ([[0]], [[0.0]])
    async with ModelServer(Completes("Done.")) as server:
        proxy = {"base_url": server.url, "api_key": "k", "http_client": None}
        with pytest.raises(UnjudgedError, match="its agent got no reply of the model"):
            await RehearsalAgent(run).run({"task": TASK}, **proxy)
    assert sampler.sampled == []


ASKS = """
import json, os, urllib.request

body = {"messages": [{"role": "user", "content": open(os.environ["REHEARSE_PROMPT"]).read()}]}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
print("I heard", json.load(urllib.request.urlopen(asked))["choices"][0]["message"]["content"])
"""


async def test_commands(model: Path, sampler: LocalSampler, tmp_path: Path) -> None:
    """A command plays, too, several at once: each finds its own episode's model."""
    (tmp_path / "asks.py").write_text(ASKS)
    run = stubs.run_in(tmp_path, agent=f"{sys.executable} {tmp_path / 'asks.py'}")
    player = SamplerPlayer("slime", run, model, context=20_000)
    episodes = await asyncio.gather(*(player.play(TASK, ask_of(sampler)) for _ in range(3)))
    run.close()
    assert {(one.ending, one.label) for one in episodes} == {("answered", "agent_error")}
    rows = [row for one in episodes for row in rows_of(one)]
    assert replies_in(rows) == Counter(sampler.sampled)
    assert len(rows) == 3


async def test_endpoints(model: Path, sampler: LocalSampler, tmp_path: Path) -> None:
    """An endpoint plays, too: its request names the trainer's model. This one does not ask it."""
    async with ModelServer(Completes("Done.")) as server:
        run = stubs.run_in(tmp_path, agent=server.url)
        player = SamplerPlayer("slime", run, model, context=20_000)
        with pytest.raises(UnjudgedError, match="its agent got no reply of the model"):
            await player.play(TASK, ask_of(sampler))
        run.close()
    told = server.requests[-1]  # after those for a card
    assert told.body["metadata"]["rehearse_model_url"].startswith("http://127.0.0.1:")


async def test_an_engine_that_fails(run_of: Made, model: Path) -> None:
    """Where the trainer's engine fails, the episode has no reward: the agent is not to blame."""
    player = SamplerPlayer("slime", run_of("compacts"), model, context=20_000)

    async def ask(*_: object) -> GeneratedTokens:
        raise ConnectionError("the engine is gone")

    with pytest.raises(UnjudgedError, match=r"policy_error.*the engine is gone"):
        await player.play(TASK, ask)


async def test_a_window_for_an_agent(run_of: Made, model: Path, sampler: LocalSampler) -> None:
    """A history window shortens what the agent sends, and what is trained is what was shown."""
    player = SamplerPlayer("slime", run_of("compacts", "last:1"), model, context=20_000)
    episode = await player.play(TASK, ask_of(sampler))
    assert replies_in(rows_of(episode)) == Counter(sampler.sampled)


async def test_a_reply_that_nobody_waits_for(
    run_of: Made,
    model: Path,
    sampler: LocalSampler,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the agent gives a request up, the cookbook's reply to it is bound to no turn: it is not
    logged, and has the cookbook's mark of what it does not train. The next reply belongs to the
    next request."""
    asked = tmp_path / "asked"
    monkeypatch.setenv("ASKED", str(asked))
    player = SamplerPlayer("tinker-cookbook", run_of("gives_up"), model, context=20_000)
    env = RehearsalEnv(player, TASK, Member(), types=stubs.TINKER)
    seen, _ = await env.initial_observation()
    assert "given up" in player.chat.decode(seen.ids)
    asked.touch()
    assert env._shown is not None
    await asyncio.wait({env._shown.reply})
    lost, _ = sampler.sample(seen.ids)
    first = await env.step(lost)
    assert (first.episode_done, first.metrics) == (False, {LEFT_OUT: 1.0})
    kept, _ = sampler.sample(first.next_observation.ids)
    last = await env.step(kept)
    assert (last.episode_done, last.reward) == (True, 1.0)
    assert LEFT_OUT not in last.metrics
    assert logged_replies(player.run) == [(tuple(first.next_observation.ids), tuple(kept))]


def test_trainers_of_one_sequence_refuse_agents(run_of: Made, model: Path) -> None:
    """A trainer that takes one sequence an episode refuses an agent of the user's own before
    anything is played, by a sentence that says why, and which trainers carry it."""
    run = run_of("compacts")
    for make in (environments, meta_environment):
        with pytest.raises(SettingsError, match="TRL" + REFUSED):
            make(run)
    with pytest.raises(SettingsError, match="SkyRL" + REFUSED):
        RehearsalGenerator(run, model, None, step_wise=False)
    kind = loop_class(run, model, module="loops", name="rehearsal", verl=stubs.VERL)
    with pytest.raises(SettingsError, match="verl" + REFUSED):
        kind(None, prompt_length=1, response_length=1, use_v1=False)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (RunOptions(agent="nowhere:agent"), "'nowhere:agent': it is not there"),
        (RunOptions(agent=OWN + "three"), r"expected \(task, env\) or \(task\)"),
        (RunOptions(agent="no-such-program --fast"), "no-such-program"),
        (RunOptions(agent=OWN + "silent", history=parse_history("summary:2")), "summaries"),
        (RunOptions(agent=OWN + "silent", dialect=Hermes()), "the dialect is native, not 'hermes'"),
    ],
)
def test_agents_that_cannot_play(options: RunOptions, why: str, tmp_path: Path) -> None:
    """An agent that is not there, or is not played so, is refused when the run is made."""
    with pytest.raises(SettingsError, match=why):
        BackgroundRun(tmp_path / "run", [str(LIBRARY)], options)
