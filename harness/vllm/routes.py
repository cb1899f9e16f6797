"""The other routes of a vLLM server, beside completions: its models, its state, its control.

Read in vLLM 0.32.0 (vllm/entrypoints/serve, vllm/entrypoints/rl/online/api_router.py). The control
routes exist only where the server was started with VLLM_SERVER_DEV_MODE=1, and its API key does not
protect them: such a server must listen on loopback only.
"""

from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from rehearsal_room.harness.chat.completions import read_error
from rehearsal_room.harness.chat.transport import (
    Endpoint,
    HttpResponse,
    LeanTransport,
    TransportError,
)
from rehearsal_room.harness.core.errors import PolicyError

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ServedModel(msgspec.Struct, frozen=True):
    """A model that the server serves."""

    name: str  # the name of the model in requests
    max_tokens: int  # limit of prompt and reply together


class Workers(msgspec.Struct, frozen=True):
    """The workers of a server, which compute."""

    extension: str  # the class that they were started with (--worker-extension-cls)
    device: str  # as in cuda, cpu
    in_chunks: bool  # whether long prompts are computed in several steps


class RequestRefusedError(PolicyError):
    """The server answered with another status than 200."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _Route(Endpoint, frozen=True):
    path: str = ""  # after the server's root, with the query

    @property
    def url(self) -> str:
        return root_of(self.base_url) + self.path


class VllmRoutes:
    """Sends requests to one server, each on its own connection. On asyncio only.

    `base_url` is the URL of its OpenAI API, as in `http://127.0.0.1:8000/v1`.
    """

    def __init__(self, base_url: str, *, api_key: str | None = None) -> None:
        self.base_url = base_url.rstrip("/")
        self._api_key = api_key

    @property
    def is_local(self) -> bool:
        """Whether the server is reached over loopback."""
        return urlsplit(self.base_url).hostname in _LOOPBACK

    async def is_healthy(self) -> bool:
        """Whether the server accepts requests."""
        try:
            return (await self._send("GET", "/health", None, 5.0)).status == 200
        except TransportError:
            return False

    async def is_paused(self) -> bool:
        """Whether requests wait there; False for a server without control routes. Raises
        PolicyError."""
        try:
            state = await self.get("/is_paused")
        except RequestRefusedError:
            return False
        return isinstance(state, dict) and state.get("is_paused") is True

    async def get(self, path: str, *, timeout_s: float = 30.0) -> Any:
        """The decoded answer to a GET request. Raises PolicyError; RequestRefusedError for
        an answer of another status than 200."""
        return self._decoded(path, await self._request("GET", path, None, timeout_s))

    async def post(self, path: str, body: Any = None, *, timeout_s: float = 600.0) -> Any:
        """The decoded answer to a POST request. Raises PolicyError; RequestRefusedError for
        an answer of another status than 200."""
        return self._decoded(path, await self._request("POST", path, body, timeout_s))

    async def order(self, path: str, body: Any, *, timeout_s: float = 600.0) -> None:
        """Send a POST request whose answer is a text for people. Raises as `post`."""
        await self._request("POST", path, body, timeout_s)

    async def models(self) -> list[ServedModel]:
        """The models that are served, without adapters. Raises PolicyError."""
        content = await self.get("/v1/models")
        try:
            models = msgspec.convert(content, _Models).data
        except msgspec.ValidationError as exc:
            raise PolicyError(
                f"{self.base_url}: /models did not answer as vLLM does: {exc}"
            ) from exc
        return [
            ServedModel(one.id, one.max_model_len)
            for one in models
            if one.parent is None and one.max_model_len is not None
        ]

    async def workers(self) -> Workers:
        """The server's workers. Raises PolicyError; RequestRefusedError for a server without
        dev mode."""
        content = await self.get("/server_info?config_format=json")
        try:
            config = msgspec.convert(content, _Info).vllm_config
        except msgspec.ValidationError as exc:
            raise PolicyError(
                f"{self.base_url}: /server_info did not answer as vLLM does: {exc}"
            ) from exc
        return Workers(
            config.parallel_config.worker_extension_cls,
            config.device_config.device,
            config.scheduler_config.enable_chunked_prefill,
        )

    async def _request(
        self, method: Literal["POST", "GET"], path: str, body: Any, timeout_s: float
    ) -> bytes:
        source = self._source(path)
        try:
            response = await self._send(method, path, body, timeout_s)
        except TransportError as exc:
            raise PolicyError(f"{source}: {exc}") from exc
        status = response.status
        if status != 200:
            failure = read_error(status, response.headers, response.body)
            raise RequestRefusedError(f"{source}: status {status}: {failure.message}", status)
        return response.body

    def _decoded(self, path: str, content: bytes) -> Any:
        try:
            return msgspec.json.decode(content) if content else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise PolicyError(f"{self._source(path)}: the answer is not JSON: {exc}") from exc

    def _source(self, path: str) -> str:
        return f"vLLM at {root_of(self.base_url)}{path.partition('?')[0]}"

    async def _send(
        self, method: Literal["POST", "GET"], path: str, body: Any, timeout_s: float
    ) -> HttpResponse:
        content = b"" if body is None else msgspec.json.encode(body)
        route = _Route(self.base_url, self._api_key, None, None, timeout_s, 1, method, path=path)
        async with LeanTransport(route) as transport:
            return await transport.post(content)


class _Model(msgspec.Struct):
    id: str
    max_model_len: int | None = None  # None: it is an adapter
    parent: str | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


class _Parallel(msgspec.Struct):
    worker_extension_cls: str


class _Device(msgspec.Struct):
    device: str


class _Scheduler(msgspec.Struct):
    enable_chunked_prefill: bool


class _Config(msgspec.Struct):
    parallel_config: _Parallel
    device_config: _Device
    scheduler_config: _Scheduler


class _Info(msgspec.Struct):
    vllm_config: _Config


def root_of(base_url: str) -> str:
    """The URL of the routes that are not under /v1.

    Example: "http://127.0.0.1:8000/v1" -> "http://127.0.0.1:8000"
    """
    return base_url.rstrip("/").removesuffix("/v1")
