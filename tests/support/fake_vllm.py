"""A vLLM server on loopback that behaves as vLLM 0.32, with faults that tests can set."""

from collections import Counter, deque
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec

from rehearsal_room.envpool.server.http_server import listening

END = 2  # the tiny tokenizer's <|im_end|>
TOKENS = [40, 41, END]


class FakeVllm:
    """The ASGI application. It always returns the same tokens, with log-probability -0.25."""

    def __init__(self) -> None:
        self.control_requests: list[tuple[str, Any]] = []  # path with query, and body
        self.completions: list[Any] = []  # bodies of the requests that are not probes
        self.num_probes = 0
        self.models = [{"id": "served", "max_model_len": 4096, "parent": None}]
        self.has_dev_mode = True
        self.has_adapters = False  # --enable-lora, and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1
        self.adapters: dict[str, str] = {}  # name: folder
        self.reports_raw = False
        self.label = "default"
        self.device, self.extension, self.in_chunks = "cuda", "", True
        self.paused = False
        self.failing: Counter[str] = Counter()  # number of times that a route will answer 500
        self.bad_folders: set[str] = set()  # that cannot be loaded
        self.num_cache_refusals = 0  # times that it will not drop the prefix cache
        self.changes: dict[str, Any] = {}  # to the fields of a choice
        self.usage: dict[str, Any] = {}  # to the fields of the usage
        self.plan: deque[tuple[int, bytes]] = deque()  # answers to the next completions
        self.pauses = anyio.Event()  # set: a pause has begun
        self.may_pause = anyio.Event()  # a pause takes until it is set
        self.may_pause.set()
        self.has_request = anyio.Event()  # set: a completion was requested
        self.may_complete = anyio.Event()  # a completion takes until it is set
        self.may_complete.set()

    @property
    def control_paths(self) -> list[str]:
        """The control routes that were called, in order."""
        return [path for path, _ in self.control_requests]

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        query = scope["query_string"].decode()
        path = scope["path"] + (f"?{query}" if query else "")
        status, answer = await self._answer(path, msgspec.json.decode(body) if body else None)
        data = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
        headers = [(b"content-length", b"%d" % len(data)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    async def _answer(self, path: str, body: Any) -> tuple[int, Any]:
        if path == "/health":
            return 200, b""
        if path == "/v1/models":
            return 200, {"object": "list", "data": self.models}
        if path == "/v1/completions":
            return await self._completion(body)
        if path in ("/v1/load_lora_adapter", "/v1/unload_lora_adapter") and self.has_adapters:
            return self._change_adapters(path, body)
        if not self.has_dev_mode or path.startswith("/v1/"):
            return 404, {"detail": "Not Found"}
        if path == "/is_paused":
            return 200, {"is_paused": self.paused}
        if path == "/weight_info" and self._fails(path):
            return 500, {"error": "it is broken"}
        if path == "/weight_info":
            return 200, {"weight_version": self.label}
        if path == "/server_info?config_format=json":
            config = {
                "parallel_config": {"worker_extension_cls": self.extension},
                "device_config": {"device": self.device},
                "scheduler_config": {"enable_chunked_prefill": self.in_chunks},
            }
            return 200, {"vllm_config": config}
        self.control_requests.append((path, body))
        return await self._control(path.partition("?")[0], body)

    def _change_adapters(self, path: str, body: Any) -> tuple[int, Any]:
        if not body["lora_name"]:
            return 400, {"error": {"message": "Both 'lora_name' and …", "code": 400}}
        self.control_requests.append((path, body))
        name = body["lora_name"]
        if path == "/v1/unload_lora_adapter":
            if self.adapters.pop(name, None) is None:
                return 404, {"error": {"message": f"The lora adapter '{name}' cannot be found."}}
        elif self._fails(path) or body["lora_path"] in self.bad_folders:
            return 500, {"error": {"message": "no adapter there", "code": 500}}
        else:
            self.adapters[name] = body["lora_path"]
            self.models.append({"id": name, "max_model_len": None, "parent": "served"})
        return 200, b"Success: LoRA adapter changed."

    def _fails(self, path: str) -> bool:
        self.failing[path] -= 1
        return self.failing[path] >= 0

    async def _control(self, path: str, body: Any) -> tuple[int, Any]:
        if path == "/pause":
            self.paused = True
            self.pauses.set()
            await self.may_pause.wait()
        if self._fails(path):
            return 500, {"error": "it is broken"}
        if path == "/resume":
            self.paused = False
        if path == "/collective_rpc" and body["kwargs"]["weights_path"] in self.bad_folders:
            return 500, {"error": {"message": "Worker failed with error 'no weights'", "code": 500}}
        if path == "/reset_prefix_cache":
            self.num_cache_refusals -= 1
            return 200, {"success": self.num_cache_refusals < 0}
        if path == "/update_weight_version":
            self.label = body["new_version"]
        return 200, {}

    async def _completion(self, body: Any) -> tuple[int, Any]:
        allowed = body["allowed_token_ids"]
        if allowed:
            self.num_probes += 1
            return 200, self._completion_of(
                allowed, -3.0 if self.reports_raw else 0.0, len(body["prompt"])
            )
        self.completions.append(body)
        self.has_request.set()
        await self.may_complete.wait()
        if self.plan:
            return self.plan.popleft()
        return 200, self._completion_of(TOKENS, -0.25, len(body["prompt"]))

    def _completion_of(self, ids: list[int], logprob: float, num_prompt: int) -> dict[str, Any]:
        choice = {
            "index": 0,
            "text": "whatever",
            "token_ids": ids,
            "logprobs": {"token_logprobs": [logprob] * len(ids)},
            "finish_reason": "stop",
        }
        usage = {"prompt_tokens": num_prompt, "prompt_tokens_details": {"cached_tokens": 3}}
        return {"choices": [choice | self.changes], "usage": usage | self.usage}


@asynccontextmanager
async def fake_vllm() -> AsyncIterator[tuple[FakeVllm, str]]:
    """The server, and its base URL."""
    app = FakeVllm()
    async with listening(app, host="127.0.0.1", port=0, drain_s=1.0) as url:
        yield app, f"{url}/v1"
