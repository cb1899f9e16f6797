"""The routes of a vLLM server beside completions: what it serves, and how it is steered.

Read in vLLM 0.32.0 (vllm/entrypoints/serve, vllm/entrypoints/rl/online/api_router.py). Those that
steer exist only where the server was started with VLLM_SERVER_DEV_MODE=1, and its API key does not
guard them: such a server belongs on loopback.
"""

from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from harness.chat.transport import Endpoint, HttpResponse, LeanTransport, TransportError
from harness.chat.wire import read_error
from harness.core.errors import PolicyError

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Served(msgspec.Struct, frozen=True):
    """A model that the server has."""

    name: str  # under which requests ask for it
    max_tokens: int  # of prompt and reply together


class Workers(msgspec.Struct, frozen=True):
    """What computes there."""

    extension: str  # the class that its workers were started with (--worker-extension-cls)
    device: str  # as in cuda, cpu
    in_chunks: bool  # whether long prompts are computed in several steps


class Refused(PolicyError):
    """The server answered, and not with what was asked for."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _Route(Endpoint, frozen=True):
    path: str = ""  # after the server's root, its query included

    @property
    def url(self) -> str:
        return root_of(self.base_url) + self.path


class VllmRoutes:
    """Requests to one server, one connection each. On asyncio only.

    `base_url` is that of its OpenAI side, as in `http://127.0.0.1:8000/v1`.
    """

    def __init__(self, base_url: str, *, api_key: str | None = None) -> None:
        self.base_url = base_url.rstrip("/")
        self._api_key = api_key

    @property
    def is_local(self) -> bool:
        """Whether the server is reached over loopback."""
        return urlsplit(self.base_url).hostname in _LOOPBACK

    async def is_healthy(self) -> bool:
        """Whether the server takes requests."""
        try:
            return (await self._answer("GET", "/health", None, 5.0)).status == 200
        except TransportError:
            return False

    async def is_paused(self) -> bool:
        """Whether requests wait there; one that cannot be steered is never paused. Raises
        PolicyError."""
        try:
            answered = await self.get("/is_paused")
        except Refused:
            return False
        return isinstance(answered, dict) and answered.get("is_paused") is True

    async def get(self, path: str, *, timeout_s: float = 30.0) -> Any:
        """What stands at a path, decoded. Raises PolicyError, Refused where the server answers."""
        return await self._asked("GET", path, None, timeout_s)

    async def post(self, path: str, body: Any = None, *, timeout_s: float = 600.0) -> Any:
        """What a path answers, decoded. Raises PolicyError, Refused where the server answers."""
        return await self._asked("POST", path, body, timeout_s)

    async def models(self) -> list[Served]:
        """The models that are served; adapters are not among them. Raises PolicyError."""
        answered = await self.get("/v1/models")
        try:
            listed = msgspec.convert(answered, _Models).data
        except msgspec.ValidationError as exc:
            raise PolicyError(f"{self.base_url}: /models is not as vLLM's: {exc}") from exc
        return [Served(one.id, one.max_model_len) for one in listed if one.parent is None]

    async def workers(self) -> Workers:
        """What computes there; of a server without dev mode it is not told. Raises PolicyError."""
        answered = await self.get("/server_info?config_format=json")
        try:
            told = msgspec.convert(answered, _Info).vllm_config
        except msgspec.ValidationError as exc:
            raise PolicyError(f"{self.base_url}: /server_info is not as vLLM's: {exc}") from exc
        return Workers(
            told.parallel_config.worker_extension_cls,
            told.device_config.device,
            told.scheduler_config.enable_chunked_prefill,
        )

    async def _asked(
        self, method: Literal["POST", "GET"], path: str, body: Any, timeout_s: float
    ) -> Any:
        where = f"vLLM at {root_of(self.base_url)}{path.partition('?')[0]}"
        try:
            answer = await self._answer(method, path, body, timeout_s)
        except TransportError as exc:
            raise PolicyError(f"{where}: {exc}") from exc
        if answer.status != 200:
            failure = read_error(answer.status, answer.headers, answer.body)
            raise Refused(f"{where}: status {answer.status}: {failure.message}", answer.status)
        try:
            return msgspec.json.decode(answer.body) if answer.body else None
        except msgspec.DecodeError as exc:
            raise PolicyError(f"{where}: the answer is no JSON: {exc}") from exc

    async def _answer(
        self, method: Literal["POST", "GET"], path: str, body: Any, timeout_s: float
    ) -> HttpResponse:
        sent = b"" if body is None else msgspec.json.encode(body)
        route = _Route(self.base_url, self._api_key, None, None, timeout_s, 1, method, path)
        async with LeanTransport(route) as transport:
            return await transport.post(sent)


class _Model(msgspec.Struct):
    id: str
    max_model_len: int
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
    """Where the routes are that do not stand under /v1.

    Example: "http://127.0.0.1:8000/v1" -> "http://127.0.0.1:8000"
    """
    return base_url.rstrip("/").removesuffix("/v1")
