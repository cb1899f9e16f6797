"""An agent at a URL: an A2A agent, or an OpenAI-compatible endpoint whose tools are hidden inside.

It is talked to as a user would: it gets the instruction, and in a dialogue what the user answers;
what it says is the answer. Its tools must act in the episode's world: every request names the
world's MCP server, as header `X-Rehearse-MCP-URL` and in the metadata (`rehearse_mcp_url`); the
metadata also have the model's URL (`rehearse_model_url`) and `rehearse_episode`.

The variable REHEARSE_AGENT_KEY is sent as bearer token. A2A: revisions 1.0 and 0.3 of its JSON-RPC
binding (https://a2a-protocol.org), the newer one that the agent's card has.
"""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, Self
from urllib.parse import urljoin, urlsplit
from uuid import uuid4

import aiohttp
import anyio
import msgspec
from anyio import AsyncContextManagerMixin

from rehearsal_room.harness.agents.agent_env import AgentEnv, TaskView
from rehearsal_room.harness.agents.driver import AgentFailed
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.scenarios.core.short_text import one_line

_CARDS = (".well-known/agent-card.json", ".well-known/agent.json")
_PATIENCE_S = 10.0  # with the agent's card
_POLL_S = 0.5  # between two looks at a task
_MAX_BODY = 16 << 20  # bytes of a reply
_MAX_TURNS = 200  # of one talk
_OVER = ("completed", "failed", "canceled", "rejected")
_WAITS = ("input-required", "auth-required")


class _Talk(Protocol):
    """One conversation with the agent."""

    async def say(self, text: str) -> str:
        """Say something; return what the agent says to it. Raises AgentFailed."""


class EndpointAgent(AsyncContextManagerMixin):
    """An endpoint as an agent function. Open inside of its `async with` block, which finds out what
    the endpoint speaks: raises SettingsError where nothing answers."""

    def __init__(self, url: str, environment: Mapping[str, str] = os.environ) -> None:
        self._url = url.rstrip("/")
        key = environment.get("REHEARSE_AGENT_KEY", "").strip()
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._session: aiohttp.ClientSession
        self._card: _Card | None = None  # None: an OpenAI-compatible endpoint

    def __repr__(self) -> str:
        return f"<EndpointAgent {self._url}>"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_PATIENCE_S)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(
            headers=self._headers, timeout=timeout, connector=connector, trust_env=True
        ) as self._session:
            self._card = await self._find()
            yield self

    async def __call__(self, task: TaskView, env: AgentEnv) -> str:
        """Talk with the agent until it has answered, or its user has ended the talk."""
        about = {
            "rehearse_episode": task.episode,
            "rehearse_mcp_url": task.mcp_url,
            "rehearse_model_url": task.model_url,
            "rehearse_otlp_url": task.otlp_url,
        }
        about = {name: value for name, value in about.items() if value}
        post = _Post(self._session, {"X-Rehearse-MCP-URL": task.mcp_url})
        talk: _Talk = (
            _ChatTalk(post, self._url, about)
            if self._card is None
            else _A2ATalk(post, self._card, about)
        )
        text = task.instruction
        for _ in range(_MAX_TURNS):
            said = await talk.say(text)
            if not task.is_dialogue:
                return said
            heard = await env.say(said)
            if heard is None:
                return said
            text = heard
        raise AgentFailed(f"the talk had {_MAX_TURNS} turns and no end")

    async def _find(self) -> "_Card | None":
        """The agent's card; None: the endpoint has none, and answers."""
        for path in _CARDS:
            try:
                async with self._session.get(
                    urljoin(f"{self._url}/", path),
                    timeout=aiohttp.ClientTimeout(total=_PATIENCE_S),
                ) as response:
                    body = await _read(response)
            except (aiohttp.ClientError, TimeoutError) as exc:
                raise SettingsError(
                    f"agent: nothing answers at {self._url} ({one_line(str(exc), 200)}); start the "
                    "agent first"
                ) from exc
            if response.status == 200 and (card := _card_of(body, self._url)) is not None:
                self._require_key_stays(card)
                return card
        return None

    def _require_key_stays(self, card: "_Card") -> None:
        """Raise SettingsError where the key would go to a server that only the card names."""
        if self._headers and _server_in(card.url) != _server_in(self._url):
            where = one_line(card.url, 200)
            raise SettingsError(
                f"agent: the card at {self._url} says that the agent is at {where}, and "
                f"REHEARSE_AGENT_KEY goes only to a server that you name: --agent {where}"
            )


class _Card(msgspec.Struct, frozen=True):
    url: str
    is_new: bool  # revision 1.0


def _card_of(body: bytes, base: str) -> _Card | None:
    """The address in an agent's card; None: it is none."""
    try:
        card = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(card, dict) or "name" not in card:
        return None
    interfaces = card.get("supportedInterfaces")
    for one in interfaces if isinstance(interfaces, list) else ():
        if isinstance(one, dict) and str(one.get("protocolBinding")).upper() == "JSONRPC":
            is_new = not str(one.get("protocolVersion", "1.0")).startswith("0.")
            return _Card(urljoin(f"{base}/", str(one.get("url", ""))), is_new)
    if isinstance(url := card.get("url"), str):
        return _Card(urljoin(f"{base}/", url), is_new=False)
    return None


def _server_in(url: str) -> str:
    """Example: "http://127.0.0.1:9000/a2a" -> "http://127.0.0.1:9000" """
    try:
        return "{0.scheme}://{0.netloc}".format(urlsplit(url))
    except ValueError:  # it is not a URL
        return ""


class _Post:
    """Posts JSON; what goes wrong is the agent's failure."""

    def __init__(self, session: aiohttp.ClientSession, headers: Mapping[str, str]) -> None:
        self._session = session
        self._headers = dict(headers)

    async def __call__(self, url: str, body: Any, **headers: str) -> dict[str, Any]:
        """The answer as an object. Raises AgentFailed."""
        sent = self._headers | {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            async with self._session.post(url, json=body, headers=sent) as response:
                data = await _read(response)
        except (aiohttp.ClientError, OSError) as exc:
            raise AgentFailed(
                f"the agent at {url} cannot be asked: {one_line(str(exc) or repr(exc), 200)}"
            ) from exc
        text = data[:300].decode(errors="replace")
        if response.status != 200:
            shown = one_line(text, 200)
            raise AgentFailed(f"the agent at {url} answered with {response.status}: {shown}")
        try:
            found = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = None
        if not isinstance(found, dict):
            shown = one_line(text, 200)
            raise AgentFailed(f"the agent at {url} did not answer with a JSON object: {shown}")
        return found


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """A body, up to its limit."""
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) > _MAX_BODY:
            break
    return bytes(data)


class _ChatTalk:
    """A conversation with an OpenAI-compatible endpoint, which gets all of it each time."""

    def __init__(self, post: _Post, url: str, about: dict[str, str]) -> None:
        self._post = post
        self._url = url if url.endswith("/chat/completions") else f"{url}/chat/completions"
        self._about = about
        self._messages: list[dict[str, str]] = []

    async def say(self, text: str) -> str:
        """Say something; return what the agent says to it."""
        self._messages.append({"role": "user", "content": text})
        body = {"model": "agent", "messages": self._messages, "metadata": self._about}
        found = await self._post(self._url, body)
        try:
            said = found["choices"][0]["message"]["content"]
        except (KeyError, IndexError, TypeError):
            said = None
        if not isinstance(said, str) or not said.strip():
            raise AgentFailed(f"the agent at {self._url} answered without a text")
        self._messages.append({"role": "assistant", "content": said})
        return said


class _A2ATalk:
    """A conversation with an A2A agent, which keeps it by its context."""

    def __init__(self, post: _Post, card: _Card, about: dict[str, str]) -> None:
        self._post = post
        self._card = card
        self._about = about
        self._context = str(uuid4())
        self._task = ""  # that waits for input; empty: none does

    async def say(self, text: str) -> str:
        """Say something; return what the agent says to it."""
        is_new = self._card.is_new
        part = {"text": text} if is_new else {"kind": "text", "text": text}
        message: dict[str, Any] = {
            "messageId": str(uuid4()),
            "contextId": self._context,
            "role": "ROLE_USER" if is_new else "user",
            "parts": [part],
            "metadata": self._about,
        }
        if self._task:
            message["taskId"] = self._task
        if not is_new:
            message["kind"] = "message"
        params = {"message": message, "metadata": self._about}
        result = await self._call("SendMessage" if is_new else "message/send", params)
        if is_new:
            result = result.get("task") or result.get("message") or result
        while (state := _state_of(result)) and state not in (*_OVER, *_WAITS):
            await anyio.sleep(_POLL_S)
            name = "GetTask" if is_new else "tasks/get"
            result = await self._call(name, {"id": result.get("id")})
        self._context = str(result.get("contextId") or self._context)
        self._task = str(result.get("id", "")) if state in _WAITS else ""
        if state in ("failed", "canceled", "rejected"):
            raise AgentFailed(f"the agent's task was {state}: {one_line(_said(result), 200)}")
        if not (said := _said(result)).strip():
            raise AgentFailed(f"the agent at {self._card.url} answered without a text")
        return said

    async def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": str(uuid4()), "method": method, "params": params}
        headers = {"A2A_Version": "1.0"} if self._card.is_new else {}
        found = await self._post(self._card.url, body, **headers)
        if (error := found.get("error")) is not None:
            why = error.get("message") if isinstance(error, dict) else error
            raise AgentFailed(f"the agent refused {method}: {one_line(str(why), 200)}")
        result = found.get("result")
        if not isinstance(result, dict):
            raise AgentFailed(f"the agent answered {method} without a result")
        return result


def _state_of(result: dict[str, Any]) -> str:
    """The state of a task in the words of 0.3; empty: the result is a message.

    Example: "TASK_STATE_INPUT_REQUIRED" -> "input-required"
    """
    status = result.get("status")
    if not isinstance(status, dict):
        return ""
    state = str(status.get("state", ""))
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def _said(result: dict[str, Any]) -> str:
    """The text of a message, or that of a task: its artifacts, else the message of its status."""
    artifacts = result.get("artifacts")
    parts = [
        part
        for artifact in (artifacts if isinstance(artifacts, list) else ())
        if isinstance(artifact, dict)
        for part in artifact.get("parts") or ()
    ]
    status = result.get("status")
    if not parts and isinstance(status, dict) and isinstance(status.get("message"), dict):
        parts = status["message"].get("parts") or []
    parts = parts or result.get("parts") or []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join([text for text in texts if isinstance(text, str)])
