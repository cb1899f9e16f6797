"""New weights for a running vLLM server, from a directory that both can read.

The order is the one that is safe: no request is computed while weights change, none goes on with
keys and values of other weights, and the label changes with them:

    pause, reload, drop the prefix cache, label, resume

It needs no NCCL and no GPU; a copy over the network of both machines' disks is the user's. Whatever
moves between vLLM's versions is in this class. Needs a server with VLLM_SERVER_DEV_MODE=1.
"""

from contextlib import suppress
from pathlib import Path
from typing import Literal

import anyio
import structlog

from harness.core.errors import PolicyError, SettingsError
from harness.tokenization.chat_template import read_config
from harness.vllm.routes import Refused, VllmRoutes

Pause = Literal["wait", "keep"]
_RELOAD_S = 1800.0  # seconds that a reload may take, and the requests in flight before it
_RESUME_S = 10.0  # seconds to let a server go on when its new weights are no longer wanted
_TRIES, _BETWEEN_S = 50, 0.2  # to empty the prefix cache, and seconds between two
EXTENSION = "rehearsal_vllm.Extension"  # what our own servers' workers can do besides
CHILD = Path(__file__).parent / "child"  # where it is
_PLAIN, _OURS = "reload_weights", "rehearsal_reload"  # the workers' methods
_log = structlog.get_logger(__name__)


class Halted(PolicyError):
    """The server stays paused: whoever asked it would wait for ever."""


class VllmWeights:
    """One server's weights. For one caller at a time.

    `pause` says what happens to requests in flight: `wait` lets them end under the old weights,
    `keep` freezes them; they go on under the new ones, their earlier tokens computed anew.
    """

    def __init__(self, routes: VllmRoutes, *, pause: Pause = "wait") -> None:
        self._routes = routes
        self.pause = pause
        self._method = ""  # of the server's workers; empty: not known yet
        self._held: tuple[str, Path] | None = None  # what was taken last; None: nothing was

    @property
    def url(self) -> str:
        """The server's."""
        return self._routes.base_url

    async def version(self) -> str:
        """The label of the server's weights. Raises SettingsError where it cannot be steered,
        PolicyError where it fails."""
        try:
            answered = await self._routes.get("/weight_info")
        except Refused as exc:
            if exc.status >= 500:
                raise
            raise SettingsError(_needs_dev_mode(self._routes, exc)) from exc
        return str(answered.get("weight_version", "")) if isinstance(answered, dict) else ""

    async def take(self, version: str, folder: Path) -> None:
        """Have the server answer with the weights of a Hugging Face directory, by this label.

        Raises SettingsError before anything changed, PolicyError where the server has its old
        weights and their label again, Halted where it stays paused.
        """
        folder = _checked(folder)
        label = await self.version()
        if self._held is not None and label != self._held[0]:  # replies since bear a wrong version
            _log.warning("weights_were_others", url=self.url, found=label, expected=self._held[0])
        self._method = self._method or await self._reload_method(folder)
        await self._halt()
        with anyio.CancelScope(shield=True):  # half-loaded weights are no place to stop at
            try:
                await self._load(version, folder)
            except PolicyError as exc:
                await self._restore(exc, folder)
            await self._go_on(folder)
        self._held = version, folder
        _log.info("weights_taken", version=version, folder=str(folder))

    async def _reload_method(self, folder: Path) -> str:
        """How the workers load weights; raises SettingsError where they would load them wrongly."""
        workers = await self._routes.workers()
        if workers.extension == EXTENSION:
            return _OURS
        if workers.device == "cpu" and _ties_embeddings(folder):
            raise SettingsError(
                f"base_url: the vLLM server at {self.url} runs on a CPU, where vLLM"
                " goes on with the old output layer of a model that shares it with its embedding:"
                f" start it with --worker-extension-cls {EXTENSION} and {CHILD} on its PYTHONPATH"
            )
        return _PLAIN

    async def _halt(self) -> None:
        if not self._routes.is_local:
            _log.warning("weights_steered_off_loopback", url=self.url)
        try:
            await self._routes.post(f"/pause?mode={self.pause}", timeout_s=_RELOAD_S)
        except (PolicyError, anyio.get_cancelled_exc_class()):
            # A server that did not answer may be paused all the same.
            with anyio.move_on_after(_RESUME_S, shield=True), suppress(PolicyError):
                await self._routes.post("/resume")
            raise

    async def _load(self, version: str, folder: Path) -> None:
        body = {"method": self._method, "kwargs": {"weights_path": str(folder)}}
        await self._routes.post("/collective_rpc", body, timeout_s=_RELOAD_S)
        await self._drop_prefixes()
        await self._routes.post("/update_weight_version", {"new_version": version})

    async def _go_on(self, folder: Path) -> None:
        try:
            await self._routes.post("/resume")
        except PolicyError as exc:
            raise Halted(f"{folder}: vLLM has the weights and stays paused: {exc}") from exc

    async def _drop_prefixes(self) -> None:
        # Requests that were frozen hold blocks of the old weights: they give them up.
        kept = "true" if self.pause == "keep" else "false"
        path = f"/reset_prefix_cache?reset_running_requests={kept}"
        for _ in range(_TRIES):
            if (await self._routes.post(path) or {}).get("success", False):
                return
            await anyio.sleep(_BETWEEN_S)
        seconds = _TRIES * _BETWEEN_S
        raise PolicyError(
            f"{self.url}: the prefix cache could not be dropped for {seconds:g} s:"
            " requests hold its blocks"
        )

    async def _restore(self, fault: PolicyError, folder: Path) -> None:
        """Go back to the weights before: after a reload that failed the server has none, and its
        next request would end it. Raises PolicyError always."""
        told = f"{folder}: vLLM could not load the weights and"
        if self._held is None:
            raise Halted(f"{told} stays paused: {fault}") from fault
        version, before = self._held
        try:
            await self._load(version, before)
        except PolicyError as exc:
            raise Halted(f"{told} stays paused: {fault}; nor those of {before}: {exc}") from exc
        await self._go_on(before)
        raise PolicyError(f"{told} has those of {before} again: {fault}") from fault


def _ties_embeddings(folder: Path) -> bool:
    return bool(read_config(folder / "config.json").get("tie_word_embeddings", False))


def _checked(folder: Path) -> Path:
    """The directory's absolute path. Raises SettingsError where it holds no model."""
    if not (folder / "config.json").is_file():
        raise SettingsError(f"{folder}: it is no Hugging Face directory: config.json is missing")
    if not any(folder.glob("*.safetensors")):
        raise SettingsError(f"{folder}: it holds no weights: there is no *.safetensors")
    return folder.absolute()


def _needs_dev_mode(routes: VllmRoutes, exc: Refused) -> str:
    if exc.status != 404:
        return str(exc)
    return (
        f"base_url: the vLLM server at {routes.base_url} cannot take new weights: start it with"
        " VLLM_SERVER_DEV_MODE=1 in its environment, on loopback"
    )
