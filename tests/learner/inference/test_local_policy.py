"""Policy `local`: a model in process whose weights are replaced while it plays."""

import gc
import threading
import weakref
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import msgspec
import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from harness.core.errors import PolicyError, SettingsError
from harness.core.messages import Briefing, Message, Reply, Window
from harness.core.policy_card import PolicyCard, write_card
from harness.core.token_bytes import decode_ids, decode_logprobs
from harness.policies.base import Assignment
from harness.policies.token_agent import Sampling
from harness.settings.run import Settings
from learner.config.settings import ComputeSettings
from learner.core.errors import ModelError
from learner.core.samples import Sample
from learner.inference.engine import Engine, Request
from learner.inference.engine_thread import EngineRoom
from learner.inference.local_policy import LocalPolicy, LocalSettings, local_policy
from learner.model.logprob_agreement import BOUND, agreement
from learner.model.pretrained import open_model
from scenarios.api import User
from scenarios.format import Scenario, Task
from tests.support.tiny_model import write_model, write_tokenizer

TASK = Task("t", "Do it.", "simple", "change", "Done.")
SCENARIO = Scenario(
    "s", "S", "1", "A world.", "2026-01-01T00:00:00Z", User("u", "U", "clerk"), "", "", "",
    (TASK,), Path("s"), "0" * 32,
)  # fmt: skip
WINDOW = Window((Message("system", "You act through tools."), Message("user", "Void order 7.")))
SAMPLING = Sampling(max_tokens=8)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two models of different weights."""
    place = tmp_path_factory.mktemp("models")
    return [write_model(place / f"m{seed}", head_dim=16, seed=seed) for seed in range(2)]


def assignment(seed: int = 0) -> Assignment:
    return Assignment("e", SCENARIO, TASK, seed, Briefing("", "", (), "", ""))


def policy_of(folder: Path, **settings: Any) -> LocalPolicy:
    made = LocalSettings(str(folder), SAMPLING)
    return LocalPolicy(msgspec.structs.replace(made, **settings))


@cache
def _opened(folder: Path) -> PreTrainedModel:
    return open_model(folder, ComputeSettings())


def difference(reply: Reply, folder: Path) -> float:
    """Between what the policy says and the model in the folder computes."""
    sample = Sample(
        np.array(decode_ids(reply.prompt_ids)),
        np.array(decode_ids(reply.token_ids)),
        np.array(decode_logprobs(reply.logprobs), np.float32),
        0.0,
        0,
        reply.weights,
    )
    return agreement(_opened(folder), [sample])


async def test_replies_are_the_models(folders: list[Path]) -> None:
    """Many agents at once: each reply bears its tokens, agrees with the model within the bound, and
    is the same in another run of the same seeds."""
    runs: list[dict[int, Reply]] = []
    for _ in range(2):
        replies: dict[int, Reply] = {}

        async def play(policy: LocalPolicy, seed: int, replies: dict[int, Reply]) -> None:
            replies[seed] = await policy.agent(assignment(seed)).reply(WINDOW)

        async with policy_of(folders[0]) as policy, anyio.create_task_group() as tasks:
            for seed in range(12):
                tasks.start_soon(play, policy, seed, replies)
        runs.append(replies)
        num_prompt = len(policy.chat.prompt(WINDOW, {}))
        sampled = sum(reply.usage.completion_tokens for reply in replies.values())
        counts = policy.statistics()
        assert counts.pop("cached_tokens") >= 11 * (num_prompt - 1) - num_prompt
        assert counts == {
            "requests": 12,
            "prompt_tokens": 12 * num_prompt,
            "completion_tokens": sampled,
            "versions": 1,
        }
    assert [{seed: reply.token_ids for seed, reply in run.items()} for run in runs] == [
        {seed: reply.token_ids for seed, reply in runs[0].items()}
    ] * 2
    assert len({reply.token_ids for reply in runs[0].values()}) == 12
    assert {reply.weights for reply in runs[0].values()} == {"v0"}
    assert max(difference(reply, folders[0]) for reply in runs[0].values()) < BOUND
    assert difference(runs[0][0], folders[1]) > 100 * BOUND


@pytest.mark.parametrize(
    ("switch", "versions"), [("episode", ["v1", "v1", "v2"]), ("step", ["v1", "v2", "v2"])]
)
async def test_weights_switch(folders: list[Path], switch: str, versions: list[str]) -> None:
    """An agent keeps its weights until its episode ends, or takes the newest with its next reply;
    either way a reply agrees with the weights whose version it bears."""
    async with policy_of(folders[0], switch=switch) as policy:
        await policy.take("v1", folders[0])
        early = policy.agent(assignment())
        replies = [await early.reply(WINDOW)]
        await policy.take("v2", folders[1])
        replies += [await early.reply(WINDOW), await policy.agent(assignment()).reply(WINDOW)]
    assert [reply.weights for reply in replies] == versions
    models = dict(zip(("v1", "v2"), folders, strict=True))
    whole = [msgspec.structs.replace(r, prompt_ids=replies[0].prompt_ids) for r in replies]
    assert max(difference(reply, models[reply.weights]) for reply in whole) < BOUND


async def test_a_reply_in_flight_is_of_one_version(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that come while a reply is sampled are not those that sample the rest of it."""
    started, go_on = threading.Event(), threading.Event()
    step = Engine.step

    def waiting(engine: Engine) -> list[Request]:
        done = step(engine)
        started.set()
        assert go_on.wait(5)
        return done

    monkeypatch.setattr(Engine, "step", waiting)
    replies = []
    async with policy_of(folders[0], switch="step") as policy:

        async def play() -> None:
            replies.append(await policy.agent(assignment()).reply(WINDOW))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(play)
            await anyio.to_thread.run_sync(started.wait)
            await policy.take("v1", folders[1])
            go_on.set()
    assert [(reply.weights, difference(reply, folders[0]) < BOUND) for reply in replies] == [
        ("v0", True)
    ]
    assert len(replies[0].token_ids) > 4  # more than the one that was sampled before


async def test_old_weights_are_dropped(folders: list[Path]) -> None:
    """A version's model and cache are held as long as an agent needs them, and no longer."""
    engines: list[weakref.ref[Engine]] = []
    async with policy_of(folders[0]) as policy:
        early = policy.agent(assignment())
        for version, folder in (("v1", folders[1]), ("v2", folders[0]), ("v3", folders[0])):
            engines.append(weakref.ref(policy._present().engine))
            await policy.take(version, folder)
        await early.reply(WINDOW)
        held = [[engine() is not None for engine in engines]]
        del early
        gc.collect()
        held.append([engine() is not None for engine in engines])
        assert engines[2]() is policy._present().engine  # the same weights under another name
    assert held == [[True, False, True], [False, False, True]]


async def test_others_than_agents_can_sample(folders: list[Path]) -> None:
    """The policy's backend samples behind any prompt, with the newest weights."""
    asked: dict[str, Any] = {"max_tokens": 3, "temperature": 1.0, "top_p": 1.0, "seed": 5}
    async with policy_of(folders[0]) as policy:
        backend = policy.backend()
        generated = [await backend.generate([5, 6, 7], **asked)]
        await policy.take("v1", folders[1])
        generated.append(await backend.generate([5, 6, 7], **asked))
    assert [(one.weights, len(one.token_ids)) for one in generated] == [("v0", 3), ("v1", 3)]
    assert generated[0].logprobs != generated[1].logprobs
    assert policy.context == 4096


async def test_weights_that_cannot_be_opened_leave_the_old(
    folders: list[Path], tmp_path: Path
) -> None:
    """A broken version is a ModelError; the policy goes on with what it had."""
    async with policy_of(folders[0]) as policy:
        with pytest.raises(ModelError, match="there is no such folder"):
            await policy.take("v1", tmp_path / "nothing")
        reply = await policy.agent(assignment()).reply(WINDOW)
    assert reply.weights == policy.version == "v0"


async def test_a_model_of_fewer_tokens_is_refused(folders: list[Path], tmp_path: Path) -> None:
    """A model that does not know all of the tokenizer's ids is not sampled from."""
    small = write_model(tmp_path / "small", head_dim=16, vocab_size=100)
    async with policy_of(folders[0]) as policy:
        with pytest.raises(ModelError, match="small: its model knows 100 tokens and the tokenizer"):
            await policy.take("v1", small)


async def test_cancelling_frees_the_slot(folders: list[Path]) -> None:
    """A cancelled reply leaves the engine; the next request has its place."""
    long = msgspec.structs.replace(SAMPLING, max_tokens=4000)
    async with policy_of(folders[0], sampling=long, max_live=1) as policy:
        engine = policy._present().engine
        with anyio.move_on_after(0.05) as scope:
            await policy.agent(assignment()).reply(WINDOW)
        short = Request([5, 6, 7], max_tokens=2)
        await policy._room.sample(engine, short)
        assert (scope.cancelled_caught, len(short.tokens), engine.num_requests) == (True, 2, 0)
        assert policy.statistics()["requests"] == 0


async def test_the_loop_is_never_blocked(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the engine computes a step, the event loop goes on; the thread ends with the block."""
    entered, go_on = threading.Event(), threading.Event()
    step = Engine.step

    def slow(engine: Engine) -> list[Request]:
        entered.set()
        assert go_on.wait(5)
        return step(engine)

    monkeypatch.setattr(Engine, "step", slow)
    ended = threading.Event()
    work = EngineRoom._work

    def noted(room: EngineRoom) -> None:
        work(room)
        ended.set()

    monkeypatch.setattr(EngineRoom, "_work", noted)
    async with policy_of(folders[0]) as policy, anyio.create_task_group() as tasks:
        tasks.start_soon(policy.agent(assignment()).reply, WINDOW)
        await anyio.to_thread.run_sync(entered.wait)
        assert policy.statistics()["requests"] == 0  # said by the loop, in the midst of a step
        go_on.set()
        assert not ended.is_set()
    assert policy.statistics()["requests"] == 1
    assert ended.is_set()


async def test_after_the_block_nobody_waits(folders: list[Path]) -> None:
    """Who samples when the block is over is told so."""
    async with policy_of(folders[0]) as policy:
        agent = policy.agent(assignment())
        await agent.reply(WINDOW)
    with pytest.raises(anyio.ClosedResourceError):
        await agent.reply(WINDOW)


async def test_a_bug_in_the_thread_is_raised_to_all(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes wrong while sampling is not waited for in vain, now or later."""

    def broken(engine: Engine) -> list[Request]:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Engine, "step", broken)
    async with policy_of(folders[0]) as policy:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="out of memory"):
                await policy.agent(assignment()).reply(WINDOW)


async def test_broken_weights_end_the_episode(tmp_path: Path) -> None:
    """A model whose probabilities are no numbers is a PolicyError that names its folder;
    weights that replace it are sampled from."""
    write_model(tmp_path / "nan", head_dim=16)
    weights = load_file(tmp_path / "nan" / "model.safetensors")
    broken = {name: weight * float("nan") for name, weight in weights.items()}
    save_file(broken, tmp_path / "nan" / "model.safetensors", {"format": "pt"})
    async with policy_of(tmp_path / "nan") as policy:
        with pytest.raises(PolicyError, match="nan: the model's probabilities are no numbers"):
            await policy.agent(assignment()).reply(WINDOW)
        await policy.take("v1", write_model(tmp_path / "good", head_dim=16))
        assert (await policy.agent(assignment()).reply(WINDOW)).weights == "v1"


def test_a_runs_settings(folders: list[Path]) -> None:
    """A run's settings name model and sampling; tokens are drawn as the model has them where they
    name none."""
    given = Settings(model=str(folders[1]), temperature=0.5, max_tokens=9, seed=4)
    made = local_policy(given, switch="step")._settings
    bare = local_policy(Settings(model=str(folders[1])))
    assert made == LocalSettings(str(folders[1]), Sampling(0.5, 1.0, 9, 4), "step")
    assert (bare._settings, bare.name) == (LocalSettings(str(folders[1])), "local:m1")


async def test_the_card_names_the_version(tmp_path: Path) -> None:
    """A checkpoint's own version is stamped."""
    write_model(tmp_path, head_dim=16)
    write_card(tmp_path, PolicyCard("v7", "full", "f", "hermes"))
    async with policy_of(tmp_path) as policy:
        assert (await policy.agent(assignment()).reply(WINDOW)).weights == "v7"


async def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    """A folder without tokenizer, context length or weights is a sentence that names it."""
    with pytest.raises(SettingsError, match=r"tokenizer\.json: the tokenizer cannot be read"):
        policy_of(tmp_path)
    write_tokenizer(tmp_path)
    with pytest.raises(SettingsError, match=r"config\.json: it has no max_position_embeddings"):
        policy_of(tmp_path)
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 64, "model_type": "qwen3"}')
    with pytest.raises(SettingsError, match=r"model: .*: its model cannot be opened"):
        async with policy_of(tmp_path):
            pass
