"""Serve a checkpoint over the chat API until a signal ends it."""

import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path

from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.policy_card import read_card
from rehearsal_room.harness.policies.token_agent import Sampling, TokenBackend
from rehearsal_room.harness.serving.compatibility import ServingFormats
from rehearsal_room.harness.serving.http_server import serve
from rehearsal_room.harness.serving.service import PolicyService, sampling_of
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.harness.tokenization.template_check import check_template
from rehearsal_room.harness.vllm.client import VllmClient, VllmSettings
from rehearsal_room.harness.vllm.server import VllmServer, VllmServerSettings
from rehearsal_room.learner.config.serving import ServePolicy

ServedBackend = tuple[TokenBackend, int]  # the sampling backend, and its context length in tokens


async def serve_policy(
    options: ServePolicy, settings: WorldServerSettings, report: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or SIGINT; lines for the user go to `report`. Raises SettingsError,
    PolicyError, and PoolError when the address is not available."""
    folder = Path(options.folder)
    name = options.name or _name(folder)
    chat, card = ChatTokenizer.open(folder), read_card(folder)
    formats = ServingFormats(name, chat, card, history=options.history, dialect=options.dialect)
    check_template(chat, formats.default.dialect, model=str(folder))
    for warning in formats.default.warnings:
        report(f"WARNING {folder}: {warning}")
    sampling = _sampling(options, sampling_of(card))
    async with _open_backend(options, chat) as (backend, context):
        service = PolicyService(name, backend, chat, formats, sampling, context=context)
        use = service.format
        report(f"{name} under {use.history.spec}, in the dialect {use.dialect.name}")
        await serve(service, settings, lambda url: report(f"serving on {url}"))


def _name(folder: Path) -> str:
    return folder.resolve().name


def _sampling(options: ServePolicy, usual: Sampling) -> Sampling:
    return Sampling(
        temperature=usual.temperature if options.temperature is None else options.temperature,
        top_p=usual.top_p if options.top_p is None else options.top_p,
        max_tokens=usual.max_tokens if options.max_tokens is None else options.max_tokens,
    )


@asynccontextmanager
async def _open_backend(options: ServePolicy, chat: ChatTokenizer) -> AsyncIterator[ServedBackend]:
    """Open the backend that the options name."""
    async with AsyncExitStack() as stack:
        if options.backend == "local":
            # Imported late: it needs torch, which backend vllm does not.
            module = import_module("rehearsal_room.learner.inference.local_policy")
            policy = module.LocalPolicy(module.LocalSettings(options.folder))
            await stack.enter_async_context(policy)
            yield policy.backend(), policy.context
            return
        server = await stack.enter_async_context(_vllm(options))
        client = VllmClient(server, list(chat.end_ids))
        await stack.enter_async_context(client)
        yield client, client.context


@asynccontextmanager
async def _vllm(options: ServePolicy) -> AsyncIterator[VllmSettings]:
    """The client settings of the given vLLM server, or of one that is started here."""
    if options.base_url is not None:
        yield VllmSettings(options.folder, options.base_url)
        return
    settings = VllmServerSettings(
        options.folder,
        python=options.vllm_python or sys.executable,
        can_reload=False,
        arguments=options.vllm_args,
    )
    with tempfile.NamedTemporaryFile(prefix="rehearse-vllm-", suffix=".log", delete=False) as file:
        log = Path(file.name)
    with ExitStack() as cleanup:
        cleanup.callback(log.unlink)
        try:
            async with VllmServer(settings, log) as server:
                yield server.client()
        except PolicyError:  # the message names the log file, which may show the cause
            cleanup.pop_all()
            raise
