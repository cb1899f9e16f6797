"""Policy vllm against a server on loopback: requests, replies, and loading new weights."""

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from rehearsal_room.harness.core.errors import ContextLengthError, PolicyError, SettingsError
from rehearsal_room.harness.core.messages import Briefing, Message, Reply, Usage, Window
from rehearsal_room.harness.core.policy_card import PolicyCard, write_card
from rehearsal_room.harness.core.token_bytes import encode_ids, encode_logprobs
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.token_agent import Sampling, reply_seed
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.harness.vllm import weight_sync
from rehearsal_room.harness.vllm.client import VllmSettings, choose_model
from rehearsal_room.harness.vllm.policy import VllmPolicy
from rehearsal_room.harness.vllm.routes import ServedModel, VllmRoutes
from rehearsal_room.harness.vllm.weight_sync import VllmWeights
from tests.support.fake_vllm import END, TOKENS, FakeVllm, fake_vllm
from tests.support.run_context import library
from tests.support.tiny_model import write_tokenizer

HELLO = Window((Message("user", "Void order 7."),))
ROUTES = ["/pause", "/collective_rpc", "/reset_prefix_cache", "/update_weight_version", "/resume"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def server() -> AsyncIterator[tuple[FakeVllm, str]]:
    async with fake_vllm() as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of a Hugging Face directory."""
    return directory(tmp_path / "start")


def directory(folder: Path) -> Path:
    write_tokenizer(folder)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text("")
    return folder


@asynccontextmanager
async def open_policy(
    server: tuple[FakeVllm, str], folder: Path, sampling: Sampling | None = None, **how: Any
) -> AsyncIterator[VllmPolicy]:
    """A policy of the server, with short timeouts."""
    quick = {"timeout_s": 5.0, "first_wait_s": 0.01, "max_attempts": 3}
    known = {name: how.pop(name) for name in tuple(how) if name in VllmSettings.__struct_fields__}
    settings = VllmSettings(str(folder), server[1], **(quick | known))
    async with VllmPolicy(settings, sampling or Sampling(), environment={}, **how) as policy:
        yield policy


def agent_of(policy: VllmPolicy, seed: int = 5) -> Agent:
    scenario = library()
    task = scenario.task("pay-fine")
    briefing = Briefing(task.instruction, "", (), "", "")
    return policy.agent(Assignment("e1", scenario, task, seed, briefing))


def loaded(fake: FakeVllm) -> list[str]:
    """The folders that the server was requested to load."""
    return [
        body["kwargs"]["weights_path"] for path, body in fake.control_requests if path == ROUTES[1]
    ]


def version_and_tokens(reply: Reply) -> tuple[str, bytes]:
    return reply.weights, reply.token_ids


# Requests and replies


async def test_a_reply_has_its_tokens(server: tuple[FakeVllm, str], folder: Path) -> None:
    """The prompt is sent as ids with every sampling field set, and the reply has the exact ids and
    log-probabilities, the end token included."""
    chat = ChatTokenizer.open(folder)
    prompt = chat.prompt(HELLO, {})
    sampling = Sampling(temperature=0.5, top_p=0.9, max_tokens=64, seed=3)
    async with open_policy(server, folder, sampling) as policy:
        reply = await agent_of(policy).reply(HELLO)
        assert policy.name == "vllm:start"
        statistics = policy.statistics()
    assert reply == Reply(
        chat.decode(TOKENS),
        usage=Usage(len(prompt), 3, 3),
        prompt_ids=encode_ids(prompt),
        token_ids=encode_ids(TOKENS),
        logprobs=encode_logprobs([-0.25] * 3),
        weights="v0",
    )
    assert server[0].completions == [
        {
            "model": "served",
            "prompt": prompt,
            "max_tokens": 64,
            "temperature": 0.5,
            "top_p": 0.9,
            "seed": reply_seed(3, 5, 0),
            "stop_token_ids": [END],
            "allowed_token_ids": None,
            "logprobs": 0,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
        }
    ]
    assert (statistics["requests"], statistics["completion_tokens"]) == (3, 5)  # two are probes


async def test_without_a_limit_a_reply_fills_the_context(
    server: tuple[FakeVllm, str], folder: Path
) -> None:
    """A request always has a limit of tokens, because vLLM's default is 16; a prompt that leaves no
    room is not sent."""
    prompt = len(ChatTokenizer.open(folder).prompt(HELLO, {}))
    async with open_policy(server, folder) as policy:
        await agent_of(policy).reply(HELLO)
    assert server[0].completions[0]["max_tokens"] == 4096 - prompt
    server[0].models[0]["max_model_len"] = prompt
    async with open_policy(server, folder) as policy:
        with pytest.raises(ContextLengthError, match=f"the prompt has {prompt} tokens"):
            await agent_of(policy).reply(HELLO)
    assert len(server[0].completions) == 1


async def test_the_servers_own_context_limit(server: tuple[FakeVllm, str], folder: Path) -> None:
    """vLLM's error about a prompt that is too long is a ContextLengthError."""
    fault = b'{"error":{"message":"This model\'s maximum context length is 5","code":400}}'
    server[0].plan.append((400, fault))
    async with open_policy(server, folder) as policy:
        with pytest.raises(ContextLengthError, match="maximum context length is 5"):
            await agent_of(policy).reply(HELLO)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, b'{"error":{"message":"busy"}}'),
        (200, b'{"choices": []}'),
        (200, b"{"),
        (200, b'{"choices": [{"token_ids": [], "finish_reason": "abort"}]}'),
        (200, b'{"choices": [{"token_ids": [], "finish_reason": "error"}]}'),
        (200, b'{"choices": [{"token_ids": [4]}], "error": {"message": "lost"}}'),
        (
            200,
            b'{"choices": [{"token_ids": [4], "logprobs": {"token_logprobs": [null]}}],'
            b'"usage": null}',
        ),
        (200, b'{"choices": [{"token_ids": [4], "logprobs": {"token_logprobs": [-9999.0]}}]}'),
    ],
)
async def test_temporary_faults_are_retried(
    server: tuple[FakeVllm, str], folder: Path, status: int, body: bytes
) -> None:
    """After a busy server, a broken answer or an aborted request, the request is sent again."""
    server[0].plan.append((status, body))
    async with open_policy(server, folder) as policy:
        reply = await agent_of(policy).reply(HELLO)
    assert (reply.attempts, reply.token_ids) == (2, encode_ids(TOKENS))


@pytest.mark.parametrize(
    ("changes", "usage", "fault"),
    [
        ({"token_ids": None}, {}, r"no token ids \(return_token_ids\): the server is not vLLM, or"),
        ({"logprobs": None}, {}, "has 3 tokens and 0 log-probabilities"),
        ({"token_ids": [1, 2]}, {}, "has 2 tokens and 3 log-probabilities"),
        ({}, {"prompt_tokens": 1}, r"\d+ tokens were sent and the server read 1"),
    ],
)
async def test_a_server_without_token_ids_is_refused(
    server: tuple[FakeVllm, str],
    folder: Path,
    changes: dict[str, Any],
    usage: dict[str, Any],
    fault: str,
) -> None:
    """Missing ids or log-probabilities, and a prompt that the server read differently, are errors:
    nothing is guessed."""
    async with open_policy(server, folder) as policy:
        server[0].changes, server[0].usage = changes, usage
        with pytest.raises(PolicyError, match=fault):
            await agent_of(policy).reply(HELLO)


async def test_raw_log_probabilities_are_refused(
    server: tuple[FakeVllm, str], folder: Path
) -> None:
    """A server without `--logprobs-mode processed_logprobs` is refused before any episode."""
    server[0].reports_raw = True
    with pytest.raises(SettingsError, match="--logprobs-mode processed_logprobs"):
        async with open_policy(server, folder):
            pass


async def test_a_cpu_server_that_a_seed_would_crash_is_refused(
    server: tuple[FakeVllm, str], folder: Path
) -> None:
    """vLLM 0.32 on a CPU crashes on a seeded request whose prompt is computed in chunks."""
    server[0].device = "cpu"
    with pytest.raises(SettingsError, match="start it with --no-enable-chunked-prefill"):
        async with open_policy(server, folder):
            pass
    server[0].in_chunks = False
    async with open_policy(server, folder) as policy:
        assert (await agent_of(policy).reply(HELLO)).token_ids == encode_ids(TOKENS)


async def test_a_paused_server_is_refused(server: tuple[FakeVllm, str], folder: Path) -> None:
    """A run that is killed while it loads new weights leaves the server paused: requests would wait
    for ever, so none is sent."""
    server[0].paused = True
    with pytest.raises(SettingsError, match=r"is paused; a run .* restart the server"):
        async with open_policy(server, folder):
            pass
    assert server[0].num_probes == 0


async def test_a_label_that_cannot_be_read_is_not_guessed(
    server: tuple[FakeVllm, str], folder: Path
) -> None:
    """A server that fails to return its version is an error; it is not treated as one without
    version."""
    server[0].failing["/weight_info"] = 1
    with pytest.raises(PolicyError, match=r"/weight_info: status 500: it is broken"):
        async with open_policy(server, folder):
            pass


async def test_an_unreachable_server(folder: Path) -> None:
    """The error names the address."""
    with pytest.raises(PolicyError, match=r"^vLLM at http://127\.0\.0\.1:9/v1/models: "):
        async with open_policy((FakeVllm(), "http://127.0.0.1:9/v1"), folder):
            pass
    with pytest.raises(SettingsError, match="base_url: expected a URL"):
        VllmPolicy(VllmSettings(str(folder), "127.0.0.1:9"), Sampling())


def test_choosing_a_model() -> None:
    """A single model is used whatever its name; of several, the one with the name of the folder."""
    one, two = ServedModel("m/start", 10), ServedModel("other", 10)
    assert choose_model([two], VllmSettings("m/start")) == two
    assert choose_model([two, one], VllmSettings("m/start")) == one
    assert choose_model([ServedModel("start", 10), two], VllmSettings("m/start")) == ServedModel(
        "start", 10
    )
    with pytest.raises(SettingsError, match=r"/v1 serves m/start, other, not x$"):
        choose_model([one, two], VllmSettings("x"))
    with pytest.raises(SettingsError, match="serves nothing, not x"):
        choose_model([], VllmSettings("x"))


# New weights


async def test_replies_have_the_version_of_their_weights(
    server: tuple[FakeVllm, str], folder: Path, tmp_path: Path
) -> None:
    """The server is paused, reloaded, cleared of its prefixes, labelled and resumed, in this order;
    replies before and after have the version of their weights."""
    write_card(folder, PolicyCard("v3", "full", "f", "hermes"))
    new = directory(tmp_path / "v4")
    async with open_policy(server, folder) as policy:
        agent = agent_of(policy)
        before = await agent.reply(HELLO)
        await policy.take("v4", new)
        after = await agent.reply(HELLO)
    assert (before.weights, after.weights, server[0].label) == ("v3", "v4", "v4")
    assert server[0].control_requests == [
        ("/pause?mode=wait", None),
        ("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(new)}}),
        ("/reset_prefix_cache?reset_running_requests=false", None),
        ("/update_weight_version", {"new_version": "v4"}),
        ("/resume", None),
    ]
    async with open_policy(server, folder) as policy:  # a later policy reads it from the server
        assert policy.version == "v4"


async def test_requests_in_flight_end_under_the_old_weights(
    server: tuple[FakeVllm, str], folder: Path
) -> None:
    """New weights wait for the requests in flight; later requests wait for the new weights."""
    fake = server[0]
    fake.may_complete = anyio.Event()
    replies: list[Reply] = []

    async def request(policy: VllmPolicy) -> None:
        replies.append(await agent_of(policy).reply(HELLO))

    async with open_policy(server, folder) as policy, anyio.create_task_group() as group:
        group.start_soon(request, policy)
        await fake.has_request.wait()
        group.start_soon(policy.take, "v1", folder)
        await anyio.lowlevel.checkpoint()
        group.start_soon(request, policy)
        await anyio.wait_all_tasks_blocked()
        assert (len(fake.completions), fake.control_paths) == (1, [])
        fake.may_complete.set()
    assert [version_and_tokens(reply) for reply in replies] == [
        ("v0", encode_ids(TOKENS)),
        ("v1", encode_ids(TOKENS)),
    ]


async def frozen_reply(server: tuple[FakeVllm, str], folder: Path) -> Reply:
    """The reply to a request that is in flight while, under the pause `keep`, v1 is loaded."""
    fake = server[0]
    fake.may_complete = anyio.Event()
    replies: list[Reply] = []

    async def request(policy: VllmPolicy) -> None:
        replies.append(await agent_of(policy).reply(HELLO))

    async with (
        open_policy(server, folder, pause="keep") as policy,
        anyio.create_task_group() as group,
    ):
        group.start_soon(request, policy)
        await fake.has_request.wait()
        await policy.take("v1", folder)
        fake.may_complete.set()
    [reply] = replies
    return reply


async def test_frozen_requests_have_the_version_with_which_they_began(
    server: tuple[FakeVllm, str], folder: Path
) -> None:
    """With the pause `keep` loading waits for no request, and requests release their cached
    prefixes."""
    fake = server[0]
    reply = await frozen_reply(server, folder)
    assert reply.weights == "v0"
    assert fake.control_paths[0] == "/pause?mode=keep"
    assert fake.control_paths[2] == "/reset_prefix_cache?reset_running_requests=true"


async def test_weights_switch_between_episodes(server: tuple[FakeVllm, str], folder: Path) -> None:
    """With the switch `episode` an agent that has sent a request keeps its weights until it ends;
    one that begins meanwhile waits for the new ones."""
    fake = server[0]
    newer: list[Reply] = []

    async def request(policy: VllmPolicy) -> None:
        newer.append(await agent_of(policy).reply(HELLO))

    async with (
        open_policy(server, folder, switch="episode") as policy,
        anyio.create_task_group() as group,
    ):
        agent: Agent | None = agent_of(policy)
        assert agent is not None
        versions = [(await agent.reply(HELLO)).weights]
        group.start_soon(policy.take, "v1", folder)
        await anyio.lowlevel.checkpoint()
        group.start_soon(request, policy)
        versions.append((await agent.reply(HELLO)).weights)
        assert (newer, fake.control_paths) == ([], [])
        agent = None
        gc.collect()
    assert versions == ["v0", "v0"]
    assert [reply.weights for reply in newer] == ["v1"]


async def test_a_cancelled_switch_keeps_the_old_weights(
    server: tuple[FakeVllm, str], folder: Path
) -> None:
    """After a switch that was cancelled, the next one waits for the same live episodes."""
    fake = server[0]
    async with open_policy(server, folder, switch="episode") as policy:
        agent: Agent | None = agent_of(policy)
        assert agent is not None
        await agent.reply(HELLO)
        with anyio.move_on_after(0) as given_up:
            await policy.take("v1", folder)
        assert given_up.cancelled_caught
        async with anyio.create_task_group() as group:
            group.start_soon(policy.take, "v1", folder)
            await anyio.wait_all_tasks_blocked()
            assert ((await agent.reply(HELLO)).weights, fake.control_paths) == ("v0", [])
            agent = None
    assert fake.label == "v1"


@pytest.mark.parametrize("switch", ["step", "episode"])
async def test_policies_of_one_server_share_new_weights(
    server: tuple[FakeVllm, str], folder: Path, tmp_path: Path, switch: str
) -> None:
    """While one policy loads weights, others of the same server send no requests; afterwards all
    stamp the new version, and the server does not load it again."""
    fake = server[0]
    new = directory(tmp_path / "new")
    replies: list[Reply] = []

    async def request(policy: VllmPolicy) -> None:
        replies.append(await agent_of(policy).reply(HELLO))

    async with (
        open_policy(server, folder, switch=switch) as one,
        open_policy(server, folder, switch=switch) as other,
    ):
        await one.take("v0", folder)
        await other.take("v0", folder)
        assert loaded(fake) == [str(folder)]
        fake.may_pause = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(one.take, "v1", new)
            with anyio.fail_after(5):
                while not fake.paused:  # noqa: ASYNC110  # the server is a task of its own
                    await anyio.sleep(0.001)
            group.start_soon(request, other)
            await anyio.wait_all_tasks_blocked()
            assert fake.completions == []
            fake.may_pause.set()
        await other.take("v1", new)
    assert [reply.weights for reply in replies] == ["v1"]
    assert loaded(fake) == [str(folder), str(new)]


async def test_a_live_episode_of_another_policy_keeps_its_weights(
    server: tuple[FakeVllm, str], folder: Path
) -> None:
    """With the switch `episode` a policy waits for the episodes of all policies of its server."""
    async with (
        open_policy(server, folder, switch="episode") as one,
        open_policy(server, folder, switch="episode") as other,
    ):
        agent: Agent | None = agent_of(other)
        assert agent is not None
        await agent.reply(HELLO)
        async with anyio.create_task_group() as group:
            group.start_soon(one.take, "v1", folder)
            await anyio.wait_all_tasks_blocked()
            assert ((await agent.reply(HELLO)).weights, server[0].control_paths) == ("v0", [])
            agent = None
        assert other.version == "v1"


async def test_a_later_policy_reads_the_version_again(
    server: tuple[FakeVllm, str], folder: Path
) -> None:
    """What closed policies knew about the server is forgotten: it may not be true any more."""
    async with open_policy(server, folder) as one:
        await one.take("v1", folder)
    server[0].label = "v9"
    async with open_policy(server, folder) as other:
        assert other.version == one.version == "v9"
        await other.take("v1", folder)
    assert loaded(server[0]) == [str(folder)] * 2


async def test_policies_of_one_server_share_the_pause_mode(
    server: tuple[FakeVllm, str], folder: Path
) -> None:
    """Policies with different pause modes of one server are refused."""
    async with open_policy(server, folder, pause="keep"):
        with pytest.raises(
            SettingsError, match=r"pause: another policy of .* has 'keep', not 'wai"
        ):
            async with open_policy(server, folder):
                pass


async def test_a_restarted_server_is_noticed(server: tuple[FakeVllm, str], folder: Path) -> None:
    """A restarted server has the weights of its start: requests fail until weights are loaded
    again, also the same ones."""
    fake = server[0]
    async with open_policy(server, folder) as policy:
        await policy.take("v1", folder)
        fake.label = "default"
        fake.plan.append((503, b"{}"))
        for _ in range(2):
            with pytest.raises(PolicyError, match="weights are 'default', not 'v1'"):
                await agent_of(policy).reply(HELLO)
        assert len(fake.completions) == 2
        await policy.take("v1", folder)
        assert (await agent_of(policy).reply(HELLO)).weights == "v1"
    assert loaded(fake) == [str(folder)] * 2


async def test_an_unnoticed_restart_is_logged(server: tuple[FakeVllm, str], folder: Path) -> None:
    """The next loading of weights logs a warning, since replies in between had a wrong version."""
    weights = VllmWeights(VllmRoutes(server[1]))
    with capture_logs() as logs:
        await weights.take("v1", folder)
        await weights.take("v2", folder)
        server[0].label = "default"
        await weights.take("v3", folder)
    assert [(log["event"], log.get("found"), log.get("expected")) for log in logs] == [
        *[("weights_taken", None, None)] * 2,
        ("weights_were_others", "default", "v2"),
        ("weights_taken", None, None),
    ]


async def test_a_repeated_frozen_request_has_the_version_of_its_reply(
    server: tuple[FakeVllm, str], folder: Path
) -> None:
    """With the pause `keep` an attempt that fails leaves nothing of the old weights."""
    server[0].plan.append((503, b"{}"))
    reply = await frozen_reply(server, folder)
    assert (reply.weights, reply.attempts) == ("v1", 2)


async def test_a_prefix_cache_in_use_is_dropped_later(
    server: tuple[FakeVllm, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading waits for cache blocks that are used for a moment; if they stay in use, it fails."""
    monkeypatch.setattr(weight_sync, "_RETRY_S", 0.001)
    weights = VllmWeights(VllmRoutes(server[1]))
    server[0].num_cache_refusals = 3
    await weights.take("v1", folder)
    assert [path.partition("?")[0] for path in server[0].control_paths] == [
        *ROUTES[:2],
        *ROUTES[2:3] * 4,
        *ROUTES[3:],
    ]
    server[0].num_cache_refusals = 10_000
    with pytest.raises(PolicyError, match="the prefix cache could not be dropped for"):
        await VllmWeights(VllmRoutes(server[1])).take("v2", folder)


async def test_weights_that_cannot_be_loaded(
    server: tuple[FakeVllm, str], folder: Path, tmp_path: Path
) -> None:
    """After a failed reload the server has no weights: it gets the previous ones again, and where
    there are none, stays paused."""
    bad = directory(tmp_path / "bad")
    server[0].bad_folders.add(str(bad))
    weights = VllmWeights(VllmRoutes(server[1]))
    with pytest.raises(PolicyError, match=r"could not load the weights and stays paused: .*Worker"):
        await weights.take("v1", bad)
    assert "/resume" not in server[0].control_paths
    await weights.take("v1", folder)
    server[0].control_requests.clear()
    with pytest.raises(PolicyError, match=f"bad: vLLM could not load .* those of {folder} again"):
        await weights.take("v2", bad)
    assert loaded(server[0]) == [str(bad), str(folder)]
    assert (server[0].control_paths[-1], server[0].label) == ("/resume", "v1")


async def test_a_failed_pause_is_undone(server: tuple[FakeVllm, str], folder: Path) -> None:
    """A server that did not answer may be paused nevertheless, so it is resumed."""
    server[0].failing["/pause"] = 1
    with pytest.raises(PolicyError, match=r"/pause: status 500: it is broken"):
        await VllmWeights(VllmRoutes(server[1])).take("v1", folder)
    assert (server[0].control_paths, server[0].paused) == (["/pause?mode=wait", "/resume"], False)


async def test_a_failed_label_restores_the_weights(
    server: tuple[FakeVllm, str], folder: Path, tmp_path: Path
) -> None:
    """Weights and label change together or not at all, and the server is resumed."""
    new = directory(tmp_path / "new")
    weights = VllmWeights(VllmRoutes(server[1]))
    await weights.take("v1", folder)
    server[0].control_requests.clear()
    server[0].failing["/update_weight_version"] = 1
    with pytest.raises(PolicyError, match=f"has those of {folder} again: .* it is broken"):
        await weights.take("v2", new)
    assert loaded(server[0]) == [str(new), str(folder)]
    assert (server[0].label, server[0].paused) == ("v1", False)


@pytest.mark.parametrize(
    ("route", "times", "fault"),
    [
        ("/resume", 1, "vLLM has the weights and stays paused: .* it is broken"),
        ("/collective_rpc", 2, "could not load .* stays paused: .*; nor those of .*/start: .* it"),
    ],
)
async def test_no_request_waits_for_a_server_that_stays_paused(
    server: tuple[FakeVllm, str], folder: Path, tmp_path: Path, route: str, times: int, fault: str
) -> None:
    """Requests to a server that could not be resumed fail at once, until weights are loaded."""
    new = directory(tmp_path / "new")
    async with open_policy(server, folder) as policy:
        await policy.take("v1", folder)
        server[0].failing[route] = times
        with pytest.raises(PolicyError, match=fault):
            await policy.take("v2", new)
        with pytest.raises(PolicyError, match=fault):
            await agent_of(policy).reply(HELLO)
        assert server[0].completions == []
        await policy.take("v2", new)
        assert (await agent_of(policy).reply(HELLO)).weights == "v2"


async def test_a_cpu_server_needs_the_extension_for_shared_weights(
    server: tuple[FakeVllm, str], folder: Path
) -> None:
    """On a CPU vLLM 0.32 keeps the old output layer of a model that shares it with the embedding:
    such a server is refused before it is paused, unless its workers have the extension."""
    server[0].device = "cpu"
    await VllmWeights(VllmRoutes(server[1])).take("v1", folder)
    (folder / "config.json").write_text('{"tie_word_embeddings": true}')
    server[0].control_requests.clear()
    with pytest.raises(SettingsError, match=r"--worker-extension-cls rehearsal_vllm\.Extension"):
        await VllmWeights(VllmRoutes(server[1])).take("v2", folder)
    assert server[0].control_requests == []
    server[0].extension = "rehearsal_vllm.Extension"
    await VllmWeights(VllmRoutes(server[1])).take("v2", folder)
    assert server[0].control_requests[1][1]["method"] == "rehearsal_reload"


async def test_a_folder_without_a_model_does_not_pause_the_server(
    server: tuple[FakeVllm, str], folder: Path, tmp_path: Path
) -> None:
    """A directory without config or weights is refused before the server is paused."""
    weights = VllmWeights(VllmRoutes(server[1]))
    with pytest.raises(SettingsError, match=r"config\.json is missing"):
        await weights.take("v1", tmp_path / "nowhere")
    (folder / "model.safetensors").unlink()
    with pytest.raises(SettingsError, match=r"there is no \*\.safetensors"):
        await weights.take("v1", folder)
    assert server[0].control_requests == []


async def test_a_server_without_dev_mode_loads_no_weights(
    server: tuple[FakeVllm, str], folder: Path
) -> None:
    """It answers requests, under the version of the model card; new weights are refused by a
    sentence."""
    server[0].has_dev_mode = False
    write_card(folder, PolicyCard("v3", "full", "f", "hermes"))
    async with open_policy(server, folder) as policy:
        assert (await agent_of(policy).reply(HELLO)).weights == "v3"
        with pytest.raises(SettingsError, match="start it with VLLM_SERVER_DEV_MODE=1"):
            await policy.take("v4", folder)
        assert (await agent_of(policy).reply(HELLO)).weights == "v3"


@pytest.mark.parametrize("times", [0, 1])
async def test_a_cancelled_pause_resumes_the_server(
    server: tuple[FakeVllm, str], folder: Path, times: int
) -> None:
    """Loading that is cancelled while the server is being paused does not leave it paused; if the
    server fails to resume, the cancellation still passes through."""
    fake = server[0]
    fake.failing["/resume"] = times
    fake.may_pause = anyio.Event()
    weights = VllmWeights(VllmRoutes(server[1]))
    async with anyio.create_task_group() as group:
        group.start_soon(weights.take, "v1", folder)
        await fake.pauses.wait()
        group.cancel_scope.cancel()
    assert fake.control_paths == ["/pause?mode=wait", "/resume"]
    fake.may_pause.set()


async def test_controlling_a_remote_server_is_logged(
    server: tuple[FakeVllm, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server off loopback is logged as a warning: vLLM's API key does not protect its control
    routes."""
    monkeypatch.setattr(VllmRoutes, "is_local", False)
    with capture_logs() as logs:
        await VllmWeights(VllmRoutes(server[1])).take("v1", folder)
    assert [log["event"] for log in logs] == ["weights_steered_off_loopback", "weights_taken"]
    assert VllmRoutes("http://gpu.example:8000/v1").base_url == "http://gpu.example:8000/v1"


# Adapters ---------------------------------------------------------------------------------------


def with_adapter(folder: Path, base: Path) -> Path:
    """A published version: merged weights, and an adapter beside them."""
    if not folder.exists():
        directory(folder)
    (folder / "adapter").mkdir()
    config = msgspec.json.encode({"base_model_name_or_path": str(base)})
    (folder / "adapter" / "adapter_config.json").write_bytes(config)
    return folder


async def test_adapters_are_loaded_in_place_of_weights(
    server: tuple[FakeVllm, str], folder: Path, tmp_path: Path
) -> None:
    """With adapters the server's weights stay. Each version is loaded as an adapter under a name of
    its own, requests name it, and the one before it is unloaded; the weights of the start are used
    without any, also if they were trained with an adapter themselves, which is merged already.
    Another policy that opens then still finds the server's model."""
    fake = server[0]
    fake.has_adapters = True
    with_adapter(folder, tmp_path / "before")
    one, two = (with_adapter(tmp_path / name, folder) for name in ("v1", "v2"))
    async with open_policy(server, folder, adapters=True) as policy:
        names = []
        for version, path in (("v0", folder), ("v1", one), ("v2", two), ("v0", folder)):
            await policy.take(version, path)
            reply = await agent_of(policy).reply(HELLO)
            assert reply.weights == version
            names.append(fake.completions[-1]["model"])
            async with open_policy(server, folder, adapters=True) as other:
                assert other.version == version
    assert names[0] == names[3] == "served"
    assert names[1].startswith("v1-") and names[2].startswith("v2-")
    assert fake.adapters == {}
    assert loaded(fake) == []
    bodies = [body for path, body in fake.control_requests if path == "/v1/load_lora_adapter"]
    assert [body["lora_path"] for body in bodies] == [str(one / "adapter"), str(two / "adapter")]
    assert fake.control_paths.count("/reset_prefix_cache?reset_running_requests=false") == 4


async def test_an_adapter_that_cannot_be_loaded_leaves_the_one_before_it(
    server: tuple[FakeVllm, str], folder: Path, tmp_path: Path
) -> None:
    """A server that refuses an adapter goes on with the version before it."""
    fake = server[0]
    fake.has_adapters = True
    good, bad = (with_adapter(tmp_path / name, folder) for name in ("v1", "v2"))
    fake.bad_folders.add(str(bad / "adapter"))
    async with open_policy(server, folder, adapters=True) as policy:
        await policy.take("v1", good)
        with pytest.raises(PolicyError, match=r"has those of .*v1 again: .*no adapter there"):
            await policy.take("v2", bad)
        reply = await agent_of(policy).reply(HELLO)
    assert reply.weights == "v1"
    assert fake.adapters[fake.completions[-1]["model"]] == str(good / "adapter")
    assert not fake.paused


async def test_a_server_that_loads_no_adapters_is_refused(
    server: tuple[FakeVllm, str], folder: Path
) -> None:
    """A server without --enable-lora is refused before anything changes, in a sentence that says
    how to start it."""
    async with open_policy(server, folder, adapters=True) as policy:
        with pytest.raises(SettingsError, match="VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"):
            await policy.take("v0", folder)
    assert server[0].control_requests == []


async def test_an_adapter_of_another_model_is_refused(
    server: tuple[FakeVllm, str], folder: Path, tmp_path: Path
) -> None:
    """An adapter of other weights, and a version without any, are refused before anything changes:
    the server would compute something without any error."""
    server[0].has_adapters = True
    other = with_adapter(tmp_path / "v1", tmp_path / "other")
    async with open_policy(server, folder, adapters=True) as policy:
        with pytest.raises(SettingsError, match=r"its adapter belongs to .*other, but the server"):
            await policy.take("v1", other)
        with pytest.raises(SettingsError, match="it contains no adapter"):
            await policy.take("v2", directory(tmp_path / "v2"))
    assert server[0].control_requests == []


async def test_a_server_that_was_restarted_gets_its_adapter_again(
    server: tuple[FakeVllm, str], folder: Path, tmp_path: Path
) -> None:
    """A restarted server has no adapter and another label: the next version is loaded all the
    same."""
    fake = server[0]
    fake.has_adapters = True
    one, two = (with_adapter(tmp_path / name, folder) for name in ("v1", "v2"))
    async with open_policy(server, folder, adapters=True) as policy:
        await policy.take("v1", one)
        fake.adapters.clear()
        fake.label = "default"
        await policy.take("v2", two)
        reply = await agent_of(policy).reply(HELLO)
    assert reply.weights == "v2"
    assert list(fake.adapters.values()) == [str(two / "adapter")]
