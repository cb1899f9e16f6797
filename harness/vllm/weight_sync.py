"""Loading new weights into a running vLLM server, from a directory that both can read.

The order is the safe one: no request is computed while weights change, none continues with keys and
values of other weights, and the label changes together with the weights:

    pause, reload, drop the prefix cache, label, resume

Where adapters are trained, the server keeps its weights, and each version is loaded as an adapter
(/v1/load_lora_adapter): megabytes instead of gigabytes. Requests then name it. Each load has a name
of its own: under one name vLLM would use cached keys and values of the version before, and with
`load_inplace` it would read the files again at every step.

It needs no NCCL and no GPU. Where the server runs on another machine, the user copies the directory
there. Everything that depends on vLLM's version is in this class. Needs a server with
VLLM_SERVER_DEV_MODE=1.
"""

from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Literal

import anyio
import structlog

from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.core.policy_card import ADAPTER
from rehearsal_room.harness.tokenization.chat_template import read_config
from rehearsal_room.harness.vllm.routes import RequestRefusedError, VllmRoutes

PauseMode = Literal["wait", "keep"]
_RELOAD_S = 1800.0  # time limit of a reload, with the requests in flight before it
_RESUME_S = 10.0  # time limit to resume a server whose loading was cancelled
_TRIES, _RETRY_S = 50, 0.2  # attempts to empty the prefix cache, and the interval between two
EXTENSION = "rehearsal_vllm.Extension"  # class that adds a method to the workers of VllmServer
CHILD = Path(__file__).parent / "child"  # the folder of its module
_VLLM_METHOD, _EXTENSION_METHOD = "reload_weights", "rehearsal_reload"  # of the workers
_log = structlog.get_logger(__name__)


class ServerPausedError(PolicyError):
    """The server stays paused: a request to it would wait for ever."""


class VllmWeights:
    """The weights of one server. Only one caller may use it at a time.

    `pause` determines what happens to requests in flight: `wait` lets them end under the old
    weights, `keep` freezes them; they continue under the new weights, and their earlier tokens are
    computed again.
    """

    def __init__(
        self, routes: VllmRoutes, *, pause: PauseMode = "wait", base: Path | None = None
    ) -> None:
        """`base`: the versions are adapters of this model, with which the server was started. None:
        they are whole models."""
        self._routes = routes
        self.pause = pause
        self.base = base and base.absolute()
        self.adapter = ""  # the name of the adapter that requests must use; empty: none
        self._method = ""  # the workers' method that loads weights; empty: not known yet
        self._last: tuple[str, Path] | None = None  # version and folder loaded last; None: none

    @property
    def url(self) -> str:
        """The server's base URL."""
        return self._routes.base_url

    async def version(self) -> str:
        """The label of the server's weights. Raises SettingsError where the server has no
        control routes, PolicyError where it fails."""
        try:
            info = await self._routes.get("/weight_info")
        except RequestRefusedError as exc:
            if exc.status >= 500:
                raise
            raise SettingsError(_needs_dev_mode(self._routes, exc)) from exc
        return str(info.get("weight_version", "")) if isinstance(info, dict) else ""

    async def take(self, version: str, folder: Path) -> None:
        """Load the weights of a Hugging Face directory into the server, under this label.

        Raises SettingsError before anything changed, PolicyError where the server has its old
        weights and their label again, ServerPausedError where it stays paused.
        """
        folder = _check_folder(folder)
        if self.base is not None:
            _check_adapter(folder, self.base)
            await self._require_adapters()
        label = await self.version()
        if self._last is not None and label != self._last[0]:  # replies since had a wrong version
            _log.warning("weights_were_others", url=self.url, found=label, expected=self._last[0])
        if self.base is None:
            self._method = self._method or await self._reload_method(folder)
        await self._pause()
        with anyio.CancelScope(shield=True):  # never stop half-loaded
            try:
                await self._load(version, folder)
            except PolicyError as exc:
                await self._restore(exc, folder)
            await self._resume(folder)
        self._last = version, folder
        _log.info("weights_taken", version=version, folder=str(folder))

    async def _reload_method(self, folder: Path) -> str:
        """The workers' method that loads weights. Raises SettingsError where it would load
        them wrongly."""
        workers = await self._routes.workers()
        if workers.extension == EXTENSION:
            return _EXTENSION_METHOD
        if workers.device == "cpu" and _ties_embeddings(folder):
            raise SettingsError(
                f"base_url: the vLLM server at {self.url} runs on a CPU, where vLLM"
                " keeps the old output layer of a model that shares it with its embedding:"
                f" start it with --worker-extension-cls {EXTENSION} and {CHILD} on its PYTHONPATH"
            )
        return _VLLM_METHOD

    async def _pause(self) -> None:
        if not self._routes.is_local:
            _log.warning("weights_steered_off_loopback", url=self.url)
        try:
            await self._routes.post(f"/pause?mode={self.pause}", timeout_s=_RELOAD_S)
        except (PolicyError, anyio.get_cancelled_exc_class()):
            # A server that did not answer may be paused nevertheless.
            with anyio.move_on_after(_RESUME_S, shield=True), suppress(PolicyError):
                await self._routes.post("/resume")
            raise

    async def _load(self, version: str, folder: Path) -> None:
        if self.base is not None:
            is_base = folder == self.base
            await self._load_adapter(version, None if is_base else folder / ADAPTER)
        else:
            body = {"method": self._method, "kwargs": {"weights_path": str(folder)}}
            await self._routes.post("/collective_rpc", body, timeout_s=_RELOAD_S)
        await self._drop_prefixes()
        await self._routes.post("/update_weight_version", {"new_version": version})

    async def _load_adapter(self, version: str, folder: Path | None) -> None:
        """Load an adapter, and unload the one before it. None: the weights that the server was
        started with are used as they are."""
        before, self.adapter = self.adapter, ""
        if folder is not None:
            name = f"{version}-{token_hex(4)}"
            body = {"lora_name": name, "lora_path": str(folder)}
            await self._routes.order("/v1/load_lora_adapter", body, timeout_s=_RELOAD_S)
            self.adapter = name
        if before:
            with suppress(RequestRefusedError):  # a server that was restarted does not have it
                await self._routes.order("/v1/unload_lora_adapter", {"lora_name": before})

    async def _require_adapters(self) -> None:
        """Raise SettingsError where the server cannot load adapters: without a name and a path it
        refuses a request that it understands."""
        try:
            await self._routes.order("/v1/load_lora_adapter", {"lora_name": "", "lora_path": ""})
        except RequestRefusedError as exc:
            if exc.status not in (404, 405):
                return
            raise SettingsError(
                f"base_url: the vLLM server at {self.url} cannot load adapters (lora.rank): start"
                " it with --enable-lora --max-lora-rank RANK and, in its environment,"
                " VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
            ) from exc

    async def _resume(self, folder: Path) -> None:
        try:
            await self._routes.post("/resume")
        except PolicyError as exc:
            fault = f"{folder}: vLLM has the weights and stays paused: {exc}"
            raise ServerPausedError(fault) from exc

    async def _drop_prefixes(self) -> None:
        # Frozen requests have blocks of the old weights, which they must release.
        reset = "true" if self.pause == "keep" else "false"
        path = f"/reset_prefix_cache?reset_running_requests={reset}"
        for _ in range(_TRIES):
            if (await self._routes.post(path) or {}).get("success", False):
                return
            await anyio.sleep(_RETRY_S)
        seconds = _TRIES * _RETRY_S
        raise PolicyError(
            f"{self.url}: the prefix cache could not be dropped for {seconds:g} s:"
            " requests hold its blocks"
        )

    async def _restore(self, fault: PolicyError, folder: Path) -> None:
        """Load the previous weights: after a failed reload the server has none, and its next
        request would crash it. Always raises PolicyError."""
        start = f"{folder}: vLLM could not load the weights and"
        if self._last is None:
            raise ServerPausedError(f"{start} stays paused: {fault}") from fault
        version, before = self._last
        try:
            await self._load(version, before)
        except PolicyError as exc:
            both = f"{fault}; nor those of {before}: {exc}"
            raise ServerPausedError(f"{start} stays paused: {both}") from exc
        await self._resume(before)
        raise PolicyError(f"{start} has those of {before} again: {fault}") from fault


def _ties_embeddings(folder: Path) -> bool:
    return bool(read_config(folder / "config.json").get("tie_word_embeddings", False))


def _check_folder(folder: Path) -> Path:
    """The directory's absolute path. Raises SettingsError where it contains no model."""
    if not (folder / "config.json").is_file():
        raise SettingsError(f"{folder}: not a Hugging Face directory: config.json is missing")
    if not any(folder.glob("*.safetensors")):
        raise SettingsError(f"{folder}: it contains no weights: there is no *.safetensors")
    return folder.absolute()


def _check_adapter(folder: Path, base: Path) -> None:
    """Raise SettingsError where a version has no adapter of this model. The model itself needs
    none; one that it may have, because it was trained so itself, is merged into it already."""
    if folder == base:
        return
    of = read_config(folder / ADAPTER / "adapter_config.json").get("base_model_name_or_path")
    if not isinstance(of, str):
        raise SettingsError(f"{folder}: it contains no adapter: there is no {ADAPTER} folder")
    if Path(of).absolute() != base:
        raise SettingsError(f"{folder}: its adapter belongs to {of}, but the server has {base}")


def _needs_dev_mode(routes: VllmRoutes, exc: RequestRefusedError) -> str:
    if exc.status != 404:
        return str(exc)
    return (
        f"base_url: the vLLM server at {routes.base_url} cannot load new weights: start it with"
        " VLLM_SERVER_DEV_MODE=1 in its environment, on loopback"
    )
