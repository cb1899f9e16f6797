"""Agents as functions, which the tests name as MODULE:FUNCTION."""

import contextlib
import json
import os
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any


def _ask(task: Any, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    body = {"model": task.model, "messages": messages, **fields}
    request = urllib.request.Request(
        f"{task.model_url}/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as answer:
            found: dict[str, Any] = json.load(answer)["choices"][0]["message"]
            return found
    except urllib.error.HTTPError as error:
        error.close()
        raise RuntimeError(f"the model answered {error.code}") from None


def loop(task: Any, env: Any) -> str:
    """Does what the model says, in a thread."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": task.instruction}]
    while True:
        message = _ask(task, messages)
        messages.append(message)
        if not message.get("tool_calls"):
            text: str = message["content"]
            return text
        for call in message["tool_calls"]:
            result = env.call(call["function"]["name"], json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result.text})


def branches(task: Any, env: Any) -> str:
    """Has two helpers with conversations of their own, and forgets its own in the middle."""
    short = {"max_tokens": 6}
    for name in ("one", "two"):
        messages = [{"role": "user", "content": f"helper {name}: {task.instruction}"}]
        for _ in range(2):
            messages += [_ask(task, messages, **short), {"role": "user", "content": "go on"}]
    messages = [{"role": "user", "content": task.instruction}]
    messages += [_ask(task, messages, **short), {"role": "user", "content": "and then?"}]
    said = _ask(task, messages, **short)
    compacted = [{"role": "user", "content": f"until now: {said['content']}"}]
    return str(_ask(task, compacted, **short)["content"] or "nothing")


def leaves(task: Any, env: Any) -> str:
    """Closes its connection while the model works; says whether the request was given up then."""
    url = urllib.parse.urlparse(task.model_url)
    body = b'{"messages": [{"role": "user", "content": "a"}]}'
    head = f"POST {url.path}/chat/completions HTTP/1.1\r\nHost: {url.netloc}\r\n"
    with socket.create_connection((url.hostname, url.port)) as connection:
        connection.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        asked, given_up = Path(os.environ["ASKED"]), Path(os.environ["GIVEN_UP"])
        while not asked.exists():
            time.sleep(0.01)
    latest = time.monotonic() + 20
    while not given_up.exists() and time.monotonic() < latest:
        time.sleep(0.01)
    return f"{given_up.exists()}"


def ends_early(task: Any, env: Any) -> str:
    """Returns while a thread of it still waits for the model."""

    def ask() -> None:
        with contextlib.suppress(RuntimeError, OSError):
            _ask(task, [{"role": "user", "content": "a"}])

    threading.Thread(target=ask, daemon=True).start()
    while not Path(os.environ["ASKED"]).exists():
        time.sleep(0.01)
    return "done"


async def crashes(task: Any, env: Any) -> str:
    """Fails by itself."""
    raise RuntimeError("no plan")


def asks_badly(task: Any, env: Any) -> str:
    """Sends a request that no server takes, and gives up: a way to get no verdict."""
    return str(_ask(task, [{"role": "user", "content": "x"}], temperature="hot")["content"])


def warm(task: Any, env: Any) -> str:
    """Asks twice for another temperature and the likeliest tokens, and solves the task."""
    for word in ("a", "b"):
        _ask(task, [{"role": "user", "content": word}], temperature=0.2, top_p=0.5)
    return _pay_fine(env)


def asks_after_help(task: Any, env: Any) -> str:
    """Asks once, and says what it heard."""
    return str(_ask(task, [{"role": "user", "content": "x"}])["content"])


def three(task: Any, env: Any, more: Any) -> str:
    """Has one parameter too many."""
    return ""


def poisons(task: Any, env: Any) -> str:
    """Answers wrongly, after a request on which the model fails: a way to get no verdict."""
    try:
        _ask(task, [{"role": "user", "content": "poison"}])
    except RuntimeError:
        return "a wrong answer"
    raise AssertionError("the model answers it")


def poisons_and_fails(task: Any, env: Any) -> str:
    """The same without an answer."""
    raise RuntimeError(poisons(task, env))


def never_stops(task: Any, env: Any) -> str:
    """Asks its model again and again, and does nothing."""
    while True:
        _ask(task, [{"role": "user", "content": "what now?"}])


class _Text(str):
    """A str as frameworks have them."""


async def own_texts(task: Any, env: Any) -> str:
    """Calls and answers with texts of a subclass."""
    await env.call(_Text("list_overdue"))
    return _Text("done")


def blocks(task: Any, env: Any) -> str:
    """Waits for ever."""
    threading.Event().wait()
    return ""


def _talk(task: Any, messages: list[dict[str, Any]], *words: str) -> list[dict[str, Any]]:
    """A conversation after more turns: the model's reply, then these words, each with a reply."""
    for text in ("", *words):
        more = [{"role": "user", "content": text}] if text else []
        messages = [*messages, *more]
        messages.append(_ask(task, messages, max_tokens=6))
    return messages


def _pay_fine(env: Any) -> str:
    """Solves the task `pay-fine` of the mini world, whatever the model says."""
    env.call("find_member", {"name": "Anna Soll"})
    env.call("pay_fine", {"member_id": 2, "amount_cents": 350, "method": "card"})
    return "Anna Soll's fine of 3.50 is paid by card; she owes nothing now."


def compacts(task: Any, env: Any) -> str:
    """Forgets its history twice, and goes on from what it said last; replies are cut."""
    messages = [{"role": "user", "content": task.instruction}]
    for _ in range(3):
        said = _talk(task, messages, "and then?")[-1]["content"]
        messages = [{"role": "user", "content": f"until now: {said}"}]
    return _pay_fine(env)


def two_helpers(task: Any, env: Any) -> str:
    """Has two helpers at once, who are asked the same; asks on from one reply in two ways; is
    refused a request with stop words."""
    asked = [{"role": "user", "content": f"help with: {task.instruction}"}]
    threads = [threading.Thread(target=_talk, args=(task, asked, "go on")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    begun = _talk(task, [{"role": "user", "content": task.instruction}])
    for word in ("one way", "another way"):
        _talk(task, [*begun, {"role": "user", "content": word}])
    with contextlib.suppress(RuntimeError):
        _ask(task, begun[:1], stop=["."])
    return _pay_fine(env)


def silent(task: Any, env: Any) -> str:
    """Solves the task without a model."""
    return _pay_fine(env)


def crashes_late(task: Any, env: Any) -> str:
    """Asks its model, and fails."""
    _talk(task, [{"role": "user", "content": task.instruction}])
    raise RuntimeError("no plan")


def gives_up(task: Any, env: Any) -> str:
    """Gives a request up while the model works, asks again, and solves the task."""
    url = urllib.parse.urlparse(task.model_url)
    body = b'{"messages": [{"role": "user", "content": "given up"}]}'
    head = f"POST {url.path}/chat/completions HTTP/1.1\r\nHost: {url.netloc}\r\n"
    with socket.create_connection((url.hostname, url.port)) as connection:
        connection.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        while not Path(os.environ["ASKED"]).exists():
            time.sleep(0.01)
    _talk(task, [{"role": "user", "content": task.instruction}])
    return _pay_fine(env)


def uneven(task: Any, env: Any) -> str:
    """In one episode of four each: fails at once, solves the task without a model, with one, or
    fails after its reply."""
    plays = (blank, silent, compacts, crashes_late)
    return plays[int(task.episode[1:]) % 4](task, env)


def blank(task: Any, env: Any) -> str:
    """Fails before it asks or does anything."""
    raise RuntimeError("no plan")
