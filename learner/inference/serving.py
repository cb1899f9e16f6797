"""Serving a checkpoint: its backend opened, its service made, until a signal ends it."""

import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Literal

import msgspec

from envpool.server.settings import ServeSettings
from harness.core.errors import PolicyError
from harness.core.policy_card import read_card
from harness.policies.token_agent import Sampling, TokenBackend
from harness.serving.compatibility import ServingFormats
from harness.serving.http_server import serve
from harness.serving.service import PolicyService, sampling_of
from harness.tokenization.chat_tokenizer import ChatTokenizer
from harness.vllm.client import VllmClient, VllmSettings
from harness.vllm.server import VllmServer, VllmServerSettings


class ServePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `rehearse serve-policy` is told."""

    folder: str  # a Hugging Face directory
    backend: Literal["local", "vllm"] = "local"
    name: str | None = None  # None: the folder's
    history: str = ""  # empty: the card's
    dialect: str = ""  # empty: the card's
    temperature: float | None = None  # None: the card's
    top_p: float | None = None  # None: 1
    max_tokens: int | None = None  # of a reply; None: the card's
    base_url: str | None = None  # of a vLLM server; None: one is started
    vllm_python: str | None = None  # None: this interpreter
    vllm_args: tuple[str, ...] = ()


Opened = tuple[TokenBackend, int]  # what samples, and how many tokens it takes


async def serve_policy(
    wanted: ServePolicy, settings: ServeSettings, say: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or SIGINT; lines for the user go to `say`. Raises SettingsError,
    PolicyError, and PoolError where the address cannot be had."""
    folder = Path(wanted.folder)
    name = wanted.name or _name(folder)
    chat, card = ChatTokenizer.open(folder), read_card(folder)
    formats = ServingFormats(name, chat, card, history=wanted.history, dialect=wanted.dialect)
    for warning in formats.default.warnings:
        say(f"WARNING {folder}: {warning}")
    sampling = _sampling(wanted, sampling_of(card))
    async with _opened(wanted, chat) as (backend, context):
        service = PolicyService(name, backend, chat, formats, sampling, context=context)
        use = service.format
        say(f"{name} under {use.history.spec}, in the dialect {use.dialect.name}")
        await serve(service, settings, lambda url: say(f"serving on {url}"))


def _name(folder: Path) -> str:
    return folder.resolve().name


def _sampling(wanted: ServePolicy, usual: Sampling) -> Sampling:
    return Sampling(
        temperature=usual.temperature if wanted.temperature is None else wanted.temperature,
        top_p=usual.top_p if wanted.top_p is None else wanted.top_p,
        max_tokens=usual.max_tokens if wanted.max_tokens is None else wanted.max_tokens,
    )


@asynccontextmanager
async def _opened(wanted: ServePolicy, chat: ChatTokenizer) -> AsyncIterator[Opened]:
    """The backend that is wanted."""
    async with AsyncExitStack() as stack:
        if wanted.backend == "local":
            module = import_module(
                "learner.inference.local_policy"
            )  # torch, which vllm does not need
            policy = module.LocalPolicy(module.LocalSettings(wanted.folder))
            await stack.enter_async_context(policy)
            yield policy.backend(), policy.context
            return
        server = await stack.enter_async_context(_vllm(wanted))
        client = VllmClient(server, list(chat.end_ids))
        await stack.enter_async_context(client)
        yield client, client.context


@asynccontextmanager
async def _vllm(wanted: ServePolicy) -> AsyncIterator[VllmSettings]:
    """How the vLLM server is asked that is named, or one of our own."""
    if wanted.base_url is not None:
        yield VllmSettings(wanted.folder, wanted.base_url)
        return
    settings = VllmServerSettings(
        wanted.folder,
        python=wanted.vllm_python or sys.executable,
        can_reload=False,
        arguments=wanted.vllm_args,
    )
    with tempfile.NamedTemporaryFile(prefix="rehearse-vllm-", suffix=".log", delete=False) as file:
        log = Path(file.name)
    with ExitStack() as cleanup:
        cleanup.callback(log.unlink)
        try:
            async with VllmServer(settings, log) as server:
                yield server.client()
        except PolicyError:  # its sentence names the log, where the cause may stand further up
            cleanup.pop_all()
            raise
