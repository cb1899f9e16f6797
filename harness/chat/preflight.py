"""Requests before a run, so that a wrong URL, key or model costs a sentence and not a run.

A policy is rehearsed (see harness.setup.rehearsal): its first request is sent before the first
episode begins. Models of judges and users are looked for: the server's list of models decides where
it contains the model, and costs nothing. Many servers have no such list, or answer to names that it
does not contain; they get one chat request of one token. What passes by itself (a rate limit, a
server that loads its model) is left to the retries of the run.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Protocol, runtime_checkable

import msgspec

from rehearsal_room.harness.chat.completions import (
    error_in,
    is_page,
    read_completion,
    read_error,
)
from rehearsal_room.harness.chat.retry import (
    AttemptFailure,
    is_context_overflow,
    is_retried,
    is_withheld,
)
from rehearsal_room.harness.chat.transport import Endpoint, ModelTransport, TransportError
from rehearsal_room.harness.core.errors import ModelServerError
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.scenarios.core.short_text import one_line

MAX_WAIT_S = 20.0  # for the list of models
_LOOK_AT_URL = "correct the URL, which usually ends in /v1"
_MAX_NAMES = 8  # shown of those that the server serves
_UNKNOWN = re.compile(
    r"model.{0,200}(not (be )?found|does not exist|unknown|not exist)"
    r"|^model: |not found the model|unable to access model|deployment[^.]{0,60}does not exist"
    r"|model identifier is invalid|not a valid model|no such model|invalid model name",
    re.I | re.S,
)
_UNKNOWN_CODES = frozenset(
    {"model_not_found", "unknown_model", "NotFoundError", "DeploymentNotFound"}
    | {"model_not_available"}
)
# What servers say of a path that they do not have.
_NO_PATH = re.compile(
    r"^\W*(404|not found|file not found|resource not found|invalid url|cannot post|no route"
    r"|unexpected endpoint|unknown (url|path|endpoint|request)|page not found|method not)|^\W*$"
    r"|not found\W*$",
    re.I,
)


@runtime_checkable
class Preflight(Protocol):
    """A policy or judge whose models can be checked before a run."""

    async def preflight(self) -> None:
        """Check that the models can be asked. Raises ModelServerError."""


class ModelsEndpoint(Endpoint, frozen=True):
    """The endpoint that lists the models of a server."""

    @property
    def url(self) -> str:
        """The URL of the list."""
        return self.base_url + "/models"


def models_endpoint(endpoint: Endpoint) -> ModelsEndpoint:
    """The list of models beside an endpoint of completions."""
    fields = msgspec.structs.asdict(endpoint)
    wait = min(endpoint.timeout_s, MAX_WAIT_S)
    return ModelsEndpoint(**(fields | {"method": "GET", "concurrency": 1, "timeout_s": wait}))


async def require_model(
    name: str, url: str, models: ModelTransport, completions: ModelTransport, probe: bytes
) -> None:
    """Check that the server at `url` answers, accepts the key and has the model `name`.

    `models` reaches its list of models, and `completions` takes the request `probe`; both are open.
    Raises ModelServerError with the cause and what to do.
    """
    listed: tuple[str, ...] = ()
    outcome = await _sent(models, b"")
    if isinstance(outcome, bytes):
        listed = names_in(outcome)
        if any(_matches(name, one) for one in listed):
            return
    if isinstance(outcome, bytes) or not outcome.is_connection:
        outcome = await _sent(completions, probe)
    cause = cause_of_answer(outcome) if isinstance(outcome, bytes) else cause_of(outcome, listed)
    if cause is not None:
        raise ModelServerError(f"model {name!r} at {url}: {cause}")


async def find_server(name: str, url: str, models: ModelTransport) -> "FoundServer":
    """What the list of models says of a server at `url`, which need not have one; `models` is open.
    Raises ModelServerError where no server, or no proxy, is there."""
    outcome = await _sent(models, b"")
    if isinstance(outcome, bytes):
        return FoundServer(names_in(outcome))
    if outcome.is_connection and not (outcome.was_sent and outcome.kind == "connection"):
        raise ModelServerError(f"model {name!r} at {url}: {cause_of(outcome)}")
    return FoundServer(is_lost=outcome.is_connection)


def cause_of_rehearsal(failure: AttemptFailure, found: "FoundServer") -> str | None:
    """Why a run cannot begin whose first request failed so; None: it can. What depends on this
    one request (its length, its content), and what may pass, is left to the run.

    Example: Failure("status", "unknown role 'tool'", 400) -> "the server refuses a request as the
        run sends it (status 400: unknown role 'tool')"
    """
    if is_withheld(failure) or is_context_overflow(failure):
        return None
    if failure.is_connection and failure.was_sent and not found.is_lost:
        return None
    if (cause := cause_of(failure, found.models)) is not None:
        return cause
    if 400 <= failure.status < 500 and not is_retried(failure):
        fault = f"status {failure.status}: {failure.message}"
        return f"the server refuses a request as the run sends it ({fault})"
    return None


async def listed_by(models: ModelTransport) -> tuple[tuple[str, ...], str]:
    """The models that a server lists, and why there are none; `models` is open."""
    outcome = await _sent(models, b"")
    if isinstance(outcome, bytes):
        return names_in(outcome), "its list is empty, or none"
    return (), cause_of(outcome) or outcome.message


def shown_names(names: Sequence[str]) -> str:
    """The first of some models, for a sentence."""
    return ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")


def names_in(body: bytes) -> tuple[str, ...]:
    """The names in a list of models; empty where the answer is not such a list.

    Example: b'{"data": [{"id": "small"}, {"id": "large"}]}' -> ("small", "large")
    """
    try:
        return tuple(model.id for model in msgspec.json.decode(body, type=_Models).data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()


def cause_of_answer(body: bytes) -> str | None:
    """Why an answer of status 200 to a chat request is none, and what to do; None: it is one, or
    an error that the run will see.

    Example: b"<!doctype html>" -> "the server answers with a web page (HTML) ..."
    """
    if is_page(body):
        return f"the server answers with a web page (HTML), and not with a reply; {_LOOK_AT_URL}"
    outcome = read_completion(body)
    if isinstance(outcome, Reply):
        return None
    if outcome.status and not (is_withheld(outcome) or is_context_overflow(outcome)):
        return cause_of(outcome)
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        shown = one_line(body[:80].decode(errors="replace"), 60)
        return f"the server's answer is not JSON ({shown!r}); {_LOOK_AT_URL}"
    if isinstance(answer, dict) and ("choices" in answer or "error" in answer):
        return None
    if error_in(body) is not None:
        return None
    shown = one_line(body[:80].decode(errors="replace"), 60)
    return f"the server's answer is not a chat completion ({shown}); {_LOOK_AT_URL}"


def cause_of(failure: AttemptFailure, listed: Sequence[str] = ()) -> str | None:
    """Why a run cannot begin after this failure, and what to do; None: it can.

    Example: Failure("status", "no such key", 401) -> "the server refuses the API key (status 401:
        no such key); set the right one, as in OPENAI_API_KEY"
    """
    if failure.kind == "proxy":
        return f"{failure.message}; start it, or name the server in NO_PROXY"
    if failure.is_connection:
        return f"no server answers ({failure.message}); start it, or correct the URL"
    if failure.kind == "malformed" and not failure.status:
        return f"the server's answer cannot be read ({failure.message}); {_LOOK_AT_URL}"
    if failure.kind != "status" or is_retried(failure):
        return None
    if 300 <= failure.status < 400:
        target = failure.headers.get("location", "")
        where = f" to {one_line(target, 200)}" if target else ""
        return (
            f"the server redirects{where} (status {failure.status}), and a run follows no"
            " redirects; use the URL of the server itself"
        )
    found = f"status {failure.status}: {failure.message}"
    if failure.status == 401:
        return f"the server refuses the API key ({found}); set the right one, as in OPENAI_API_KEY"
    if failure.code in _UNKNOWN_CODES or _UNKNOWN.search(failure.message):
        served = f"; it serves {shown_names(listed)}" if listed else ""
        return f"the server does not have this model ({found}){served}"
    if failure.status == 407:
        return f"a proxy on the way wants a user and password ({found}); set them in its URL"
    has_no_path = failure.status == 404 and _NO_PATH.search(failure.message)
    if failure.status in (405, 501) or has_no_path:
        return f"there is no chat endpoint ({found}); the URL usually ends in /v1"
    if failure.message.startswith("a web page ("):
        return f"the server answers with {failure.message}, and not with a reply; {_LOOK_AT_URL}"
    if failure.status == 404:
        return f"the server refuses a request as the run sends it ({found})"
    if failure.status in (402, 403, 429):  # 429: an exhausted quota, which no retry helps
        return f"the server refuses the account ({found})"
    return None


async def _sent(transport: ModelTransport, body: bytes) -> bytes | AttemptFailure:
    """The answer to one request of status 200, or its failure."""
    try:
        response = await transport.post(body)
    except TransportError as exc:
        return AttemptFailure(exc.kind, str(exc), was_sent=exc.was_sent)
    if 200 <= response.status < 300:
        return response.body
    return read_error(response.status, response.headers, response.body)


def _matches(name: str, listed: str) -> bool:
    """Whether a listed name is this model's; gateways list patterns such as `openai/*`, too."""
    return name == listed or ("*" in listed and fnmatchcase(name, listed))


class FoundServer(msgspec.Struct, frozen=True):
    """What a server's list of models says of it."""

    models: tuple[str, ...] = ()  # empty: it has no list
    is_lost: bool = False  # whether the connection ended without an answer


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]
