"""Policy `local`: a model in process whose weights are replaced while episodes run."""

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

from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.core.messages import Briefing, Message, Reply, Window
from rehearsal_room.harness.core.policy_card import PolicyCard, write_card
from rehearsal_room.harness.core.token_bytes import decode_ids, decode_logprobs
from rehearsal_room.harness.policies.base import Assignment
from rehearsal_room.harness.policies.token_agent import Sampling
from rehearsal_room.harness.settings.model import ModelSettings
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.learner.config.settings import ComputeSettings
from rehearsal_room.learner.core.errors import ModelError
from rehearsal_room.learner.core.samples import Sample
from rehearsal_room.learner.inference.engine import Engine, SamplingRequest
from rehearsal_room.learner.inference.engine_thread import EngineThread
from rehearsal_room.learner.inference.local_policy import LocalPolicy, LocalSettings, local_policy
from rehearsal_room.learner.model.logprob_agreement import MAX_DIFFERENCE, logprob_difference
from rehearsal_room.learner.model.pretrained import open_model
from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.format import Scenario, Task
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
    """Two models with different weights."""
    folder = tmp_path_factory.mktemp("models")
    return [write_model(folder / f"m{seed}", head_dim=16, seed=seed) for seed in range(2)]


def assignment(seed: int = 0) -> Assignment:
    return Assignment("e", SCENARIO, TASK, seed, Briefing("", "", (), "", ""))


def policy_of(folder: Path, **settings: Any) -> LocalPolicy:
    made = LocalSettings(str(folder), SAMPLING)
    return LocalPolicy(msgspec.structs.replace(made, **settings))


@cache
def _cached_model(folder: Path) -> PreTrainedModel:
    return open_model(folder, ComputeSettings())


def difference(reply: Reply, folder: Path) -> float:
    """The largest difference between the policy's log-probabilities and those of the model in the
    folder."""
    sample = Sample(
        np.array(decode_ids(reply.prompt_ids)),
        np.array(decode_ids(reply.token_ids)),
        np.array(decode_logprobs(reply.logprobs), np.float32),
        0.0,
        0,
        reply.weights,
    )
    return logprob_difference(_cached_model(folder), [sample])


async def test_replies_agree_with_the_model(folders: list[Path]) -> None:
    """With many agents at once, each reply has its tokens, agrees with the model within the bound,
    and is the same in another run with the same seeds."""
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
        num_sampled = sum(reply.usage.completion_tokens for reply in replies.values())
        counts = policy.statistics()
        assert counts.pop("cached_tokens") >= 11 * (num_prompt - 1) - num_prompt
        assert counts == {
            "requests": 12,
            "prompt_tokens": 12 * num_prompt,
            "completion_tokens": num_sampled,
            "versions": 1,
        }
    assert [{seed: reply.token_ids for seed, reply in run.items()} for run in runs] == [
        {seed: reply.token_ids for seed, reply in runs[0].items()}
    ] * 2
    assert len({reply.token_ids for reply in runs[0].values()}) == 12
    assert {reply.weights for reply in runs[0].values()} == {"v0"}
    assert max(difference(reply, folders[0]) for reply in runs[0].values()) < MAX_DIFFERENCE
    assert difference(runs[0][0], folders[1]) > 100 * MAX_DIFFERENCE


@pytest.mark.parametrize(
    ("switch", "versions"), [("episode", ["v1", "v1", "v2"]), ("step", ["v1", "v2", "v2"])]
)
async def test_weights_switch(folders: list[Path], switch: str, versions: list[str]) -> None:
    """An agent keeps its weights until its episode ends, or uses the newest for its next reply; in
    both cases a reply agrees with the weights whose version it names."""
    async with policy_of(folders[0], switch=switch) as policy:
        await policy.take("v1", folders[0])
        early = policy.agent(assignment())
        replies = [await early.reply(WINDOW)]
        await policy.take("v2", folders[1])
        replies += [await early.reply(WINDOW), await policy.agent(assignment()).reply(WINDOW)]
    assert [reply.weights for reply in replies] == versions
    models = dict(zip(("v1", "v2"), folders, strict=True))
    whole = [msgspec.structs.replace(r, prompt_ids=replies[0].prompt_ids) for r in replies]
    assert max(difference(reply, models[reply.weights]) for reply in whole) < MAX_DIFFERENCE


async def test_one_version_samples_a_whole_reply(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that arrive while a reply is sampled do not sample the rest of it."""
    started, go_on = threading.Event(), threading.Event()
    step = Engine.step

    def waiting(engine: Engine) -> list[SamplingRequest]:
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
    assert [
        (reply.weights, difference(reply, folders[0]) < MAX_DIFFERENCE) for reply in replies
    ] == [("v0", True)]
    assert len(replies[0].token_ids) > 4  # more than the one token sampled before


async def test_old_weights_are_dropped(folders: list[Path]) -> None:
    """A version's model and cache live as long as an agent needs them, and no longer."""
    engines: list[weakref.ref[Engine]] = []
    async with policy_of(folders[0]) as policy:
        early = policy.agent(assignment())
        for version, folder in (("v1", folders[1]), ("v2", folders[0]), ("v3", folders[0])):
            engines.append(weakref.ref(policy._newest_weights().engine))
            await policy.take(version, folder)
        await early.reply(WINDOW)
        alive = [[engine() is not None for engine in engines]]
        del early
        with anyio.move_on_after(5):  # the thread that sampled lets go a moment after its result
            while engines[0]() is not None:
                gc.collect()
                await anyio.sleep(0.01)
        alive.append([engine() is not None for engine in engines])
        assert (
            engines[2]() is policy._newest_weights().engine
        )  # the same weights under another name
    assert alive == [[True, False, True], [False, False, True]]


async def test_the_backend_can_be_used_without_an_agent(folders: list[Path]) -> None:
    """The policy's backend samples after any prompt, with the newest weights."""
    settings: dict[str, Any] = {"max_tokens": 3, "temperature": 1.0, "top_p": 1.0, "seed": 5}
    async with policy_of(folders[0]) as policy:
        backend = policy.backend()
        generated = [await backend.generate([5, 6, 7], **settings)]
        await policy.take("v1", folders[1])
        generated.append(await backend.generate([5, 6, 7], **settings))
    assert [(one.weights, len(one.token_ids)) for one in generated] == [("v0", 3), ("v1", 3)]
    assert generated[0].logprobs != generated[1].logprobs
    assert policy.context == 4096


async def test_the_policy_keeps_its_weights_if_new_ones_cannot_be_opened(
    folders: list[Path], tmp_path: Path
) -> None:
    """A broken version is a ModelError; the policy continues with its current weights."""
    async with policy_of(folders[0]) as policy:
        with pytest.raises(ModelError, match="the model folder does not exist"):
            await policy.take("v1", tmp_path / "nothing")
        reply = await policy.agent(assignment()).reply(WINDOW)
    assert reply.weights == policy.version == "v0"


async def test_a_model_with_too_few_tokens_is_refused(folders: list[Path], tmp_path: Path) -> None:
    """A model with fewer tokens than the tokenizer is not sampled from."""
    small = write_model(tmp_path / "small", head_dim=16, vocab_size=100)
    async with policy_of(folders[0]) as policy:
        with pytest.raises(ModelError, match="small: the model has 100 tokens, but the tokenizer"):
            await policy.take("v1", small)


async def test_cancelling_frees_the_slot(folders: list[Path]) -> None:
    """A cancelled reply leaves the engine, and the next request gets its slot."""
    long = msgspec.structs.replace(SAMPLING, max_tokens=4000)
    async with policy_of(folders[0], sampling=long, max_live=1) as policy:
        engine = policy._newest_weights().engine
        with anyio.move_on_after(0.05) as scope:
            await policy.agent(assignment()).reply(WINDOW)
        short = SamplingRequest([5, 6, 7], max_tokens=2)
        await policy._thread.sample(engine, short)
        assert (scope.cancelled_caught, len(short.tokens), engine.num_requests) == (True, 2, 0)
        assert policy.statistics()["requests"] == 0


async def test_the_loop_is_never_blocked(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the engine computes a step, the event loop continues; the thread ends with the
    block."""
    entered, go_on = threading.Event(), threading.Event()
    step = Engine.step

    def slow(engine: Engine) -> list[SamplingRequest]:
        entered.set()
        assert go_on.wait(5)
        return step(engine)

    monkeypatch.setattr(Engine, "step", slow)
    ended = threading.Event()
    work = EngineThread._work

    def recorded(thread: EngineThread) -> None:
        work(thread)
        ended.set()

    monkeypatch.setattr(EngineThread, "_work", recorded)
    async with policy_of(folders[0]) as policy, anyio.create_task_group() as tasks:
        tasks.start_soon(policy.agent(assignment()).reply, WINDOW)
        await anyio.to_thread.run_sync(entered.wait)
        assert policy.statistics()["requests"] == 0  # the loop answers in the middle of a step
        go_on.set()
        assert not ended.is_set()
    assert policy.statistics()["requests"] == 1
    assert ended.is_set()


async def test_sampling_after_the_block_is_an_error(folders: list[Path]) -> None:
    """A reply after the end of the block raises at once and does not wait."""
    async with policy_of(folders[0]) as policy:
        agent = policy.agent(assignment())
        await agent.reply(WINDOW)
    with pytest.raises(anyio.ClosedResourceError):
        await agent.reply(WINDOW)


async def test_a_bug_in_the_thread_is_raised_in_all_waiting_tasks(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an exception while sampling, no task waits forever, now or later."""

    def broken(engine: Engine) -> list[SamplingRequest]:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Engine, "step", broken)
    async with policy_of(folders[0]) as policy:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="out of memory"):
                await policy.agent(assignment()).reply(WINDOW)


async def test_broken_weights_end_the_episode(tmp_path: Path) -> None:
    """A model whose probabilities are not finite is a PolicyError that names its folder; weights
    that replace it can be sampled from."""
    write_model(tmp_path / "nan", head_dim=16)
    weights = load_file(tmp_path / "nan" / "model.safetensors")
    broken = {name: weight * float("nan") for name, weight in weights.items()}
    save_file(broken, tmp_path / "nan" / "model.safetensors", {"format": "pt"})
    async with policy_of(tmp_path / "nan") as policy:
        with pytest.raises(PolicyError, match="nan: the model's probabilities are not finite"):
            await policy.agent(assignment()).reply(WINDOW)
        await policy.take("v1", write_model(tmp_path / "good", head_dim=16))
        assert (await policy.agent(assignment()).reply(WINDOW)).weights == "v1"


def test_a_runs_settings(folders: list[Path]) -> None:
    """A run's settings name model and sampling; without settings of sampling, temperature and top_p
    are 1."""
    model = ModelSettings(str(folders[1]), temperature=0.5, max_tokens=9)
    run_settings = Settings(model=model, seed=4)
    local_settings = local_policy(run_settings, switch="step")._settings
    default = local_policy(Settings(model=ModelSettings(str(folders[1]))))
    assert local_settings == LocalSettings(str(folders[1]), Sampling(0.5, 1.0, 9, 4), "step")
    assert (default._settings, default.name) == (LocalSettings(str(folders[1])), "local:m1")


async def test_the_model_card_names_the_version(tmp_path: Path) -> None:
    """Replies are marked with the version of the checkpoint's model card."""
    write_model(tmp_path, head_dim=16)
    write_card(tmp_path, PolicyCard("v7", "full", "f", "hermes"))
    async with policy_of(tmp_path) as policy:
        assert (await policy.agent(assignment()).reply(WINDOW)).weights == "v7"


async def test_an_unusable_folder_is_named(tmp_path: Path) -> None:
    """A folder without tokenizer, context length or weights is an error that names the file."""
    with pytest.raises(SettingsError, match=r"tokenizer\.json: the tokenizer cannot be read"):
        policy_of(tmp_path)
    write_tokenizer(tmp_path)
    with pytest.raises(SettingsError, match=r"config\.json: max_position_embeddings is missing"):
        policy_of(tmp_path)
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 64, "model_type": "qwen3"}')
    with pytest.raises(SettingsError, match=r"model: .*: the model cannot be opened"):
        async with policy_of(tmp_path):
            pass
