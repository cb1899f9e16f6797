"""Deterministic models for τ²-bench's parity: an HTTP server on loopback that speaks the chat API
and plays the agent, the customer and the model that judges assertions in words.

A case is a task and a kind of behaviour. Its number stands in the customer's scenario ("case number
17"); the customer says it first, so both sides' agents know it. An answer depends on the case, the
seed and what was said so far. No real model plays: this checks the two harnesses, not a model.
"""

import copy
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JsonObject = dict[str, Any]

# name -> what is special about it. The agent is right and the customer cooperates otherwise.
BEHAVIOURS = {
    "right": "the reference actions, the customer's too, and all that must be said",
    "wrong_argument": "one argument of the last action is changed",
    "action_missing": "the last action is left out",
    "silent": "the agent talks and never acts",
    "text_beside_calls": "all that must be said is said beside calls, and nothing after them",
    "malformed_arguments": "the second call's arguments are cut off",
    "blank_arguments": "the second call's arguments are an empty text",
    "list_arguments": "the second call's arguments are a list",
    "empty_reply": "the agent's second reply has neither a text nor a call",
    "refuses": "the agent refuses, and the customer asks for somebody else",
    "overcalls": "every call is made twice, the second time in the same message",
    "wrong_side": "the agent makes the customer's calls itself",
    "repeats": "the first call is made five times",
    "ten_errors": "the agent makes ten calls of tools that do not exist, then does all right",
    "nine_errors": "the same with nine calls",
    "errors_at_once": "twelve calls of tools that do not exist in one message",
    "stops_early": "the agent says goodbye after the first action",
    "asks": "the agent asks before every action",
    "all_at_once": "all actions of the agent in one message",
    "recites": "the agent says all that must be said at once, and does nothing",
    "customer_claims": "the customer says that it acted, and did not",
    "customer_calls_agents_tools": "the customer calls the agent's tools",
    "customer_text_beside_calls": "the customer talks beside its calls, a stop word included",
    "customer_errors": "the customer calls a tool that does not exist ten times",
    "customer_silent": "the customer's second message is empty",
    "customer_malformed": "the arguments of the customer's first call are cut off",
    "out_of_scope": "the customer ends the talk at once",
    "stop_word_of_agent": "the agent says the customer's stop word in its first message",
    "bad_types": "before it is right, the agent sends unknown arguments, none, and other types",
    "odd_texts": "numbers with commas, accents, line breaks and thoughts in what is said",
    "cut_off": "every reply of the agent ends at its limit of tokens, as its server says",
    "endless": "agent and customer talk until the limit (every tenth task; otherwise `asks`)",
}
_CASE = re.compile(r"case number (\d+)")
_STEP = re.compile(r"do step (\d+) to (\d+)")


class Case:
    """One task that is played with one behaviour."""

    def __init__(self, task: JsonObject, behaviour: str, number: int, seed: int) -> None:
        self.task, self.behaviour, self.number = task, behaviour, number
        digest = blake2b(f"{seed} {task['id']} {behaviour}".encode(), digest_size=4).digest()
        self.draw = int.from_bytes(digest)  # chooses between equal answers
        criteria = task.get("evaluation_criteria") or {}
        self.actions: list[JsonObject] = criteria.get("actions") or []
        self.infos: list[str] = criteria.get("communicate_info") or []

    @property
    def is_endless(self) -> bool:
        return self.behaviour == "endless" and self.draw % 10 == 0


def with_behaviour(case: Case, behaviour: str, actions: Sequence[JsonObject]) -> Case:
    """The case with another behaviour and other actions."""
    other = copy.copy(case)
    other.behaviour, other.actions = behaviour, list(actions)
    return other


def case_in(messages: Sequence[JsonObject]) -> int:
    """The number of the case that a talk belongs to."""
    for message in messages:
        if found := _CASE.search(message.get("content") or ""):
            return int(found[1])
    raise ValueError("no message names a case")


Reply = tuple[str | None, list[tuple[str, str]]]  # text, and calls with their arguments as JSON


def _call(action: JsonObject) -> tuple[str, str]:
    return action["name"], json.dumps(action["arguments"])


def _changed(action: JsonObject, draw: int) -> JsonObject:
    names = sorted(action["arguments"])
    if not names:
        return {**action, "arguments": {"unknown": 1}}
    name = names[draw % len(names)]
    value = action["arguments"][name]
    other: Any = f"{value}x"
    if isinstance(value, bool):
        other = not value
    elif isinstance(value, int | float):
        other = value + 1
    elif isinstance(value, list):
        other = value[1:]
    return {**action, "arguments": {**action["arguments"], name: other}}


def _nothing(number: int) -> tuple[str, str]:
    return f"no_such_tool_{number}", json.dumps({"number": number})


def agent_plan(case: Case) -> list[Reply]:
    """The agent's replies, one after the other."""
    kind, draw = case.behaviour, case.draw
    if case.is_endless:
        return [(f"One moment, please ({number}).", []) for number in range(400)]
    if kind == "silent":
        return [("I am thinking about it.", [])] * 3 + [("Is there anything else?", [])]
    if kind == "refuses":
        return [("I am sorry, I can't help with that.", [])] * 2
    if kind == "recites":
        return [(f"It may be: {', '.join(case.infos) or 'nothing'}. Anything else?", [])] * 2
    actions = list(case.actions)
    if kind == "wrong_argument" and actions:
        actions[-1] = _changed(actions[-1], draw)
    if kind == "action_missing":
        actions = actions[:-1]
    plan: list[Reply] = []
    if kind == "stop_word_of_agent":
        plan.append(("###STOP### is a word that I know.", []))
    if kind == "ten_errors":
        plan += [(None, [_nothing(number)]) for number in range(10)]
    if kind == "nine_errors":
        plan += [(None, [_nothing(number)]) for number in range(9)]
    if kind == "errors_at_once":
        plan.append((None, [_nothing(number) for number in range(12)]))
    if kind == "bad_types":
        plan += _bad_types(actions)
    if kind == "all_at_once":
        own = [_call(one) for one in actions if one.get("requestor", "assistant") == "assistant"]
        plan += [(None, own)] if own else []
        actions = [one for one in actions if one.get("requestor") == "user"]
    plan += _acting(case, actions)
    if kind == "stops_early":
        plan = plan[:1]
    if kind == "repeats":
        first = next((at for at, reply in enumerate(plan) if reply[1]), None)
        plan[first or 0 : first or 0] = [] if first is None else [plan[first]] * 4
    for name, text in (
        ("malformed_arguments", '{"a": '),
        ("blank_arguments", ""),
        ("list_arguments", "[1]"),
    ):
        if kind == name:
            plan = [*plan[:1], (None, [("get_user_details", text)])]
    if kind == "empty_reply":
        plan = [*plan[:1], ("  ", [])]
    last = "Everything is done."
    if kind == "odd_texts":
        said = ", ".join(case.infos)
        last = f"<think>hm {said}</think>\nC'est fait — \u201c{said}\u201d, 1,286.00 €\n\n"
    elif case.infos and kind not in ("text_beside_calls", "stops_early"):
        last = f"What you asked for: {'; '.join(case.infos)}."
    return [*plan, (f"{last} Anything else?", [])]


def _bad_types(actions: Sequence[JsonObject]) -> list[Reply]:
    """An unknown argument, none at all, and a list in place of each argument."""
    found: list[Reply] = []
    for action in actions[:2]:
        arguments = action["arguments"]
        found.append((None, [(action["name"], json.dumps({**arguments, "unknown_é": None}))]))
        found.append((None, [(action["name"], "{}")]))
        found.append((None, [(action["name"], json.dumps({name: [1] for name in arguments}))]))
    return found


def _acting(case: Case, actions: Sequence[JsonObject]) -> list[Reply]:
    """The actions in order; those of the customer are asked for, several at once."""
    plan: list[Reply] = []
    number = 0
    while number < len(actions):
        action = actions[number]
        at_user = action.get("requestor", "assistant") == "user"
        if case.behaviour in ("asks", "endless"):
            plan.append((f"Shall I go on with {number}?", []))
        if at_user and case.behaviour != "wrong_side":
            end = number
            while end < len(actions) and actions[end].get("requestor") == "user":
                end += 1
            plan.append((f"Please do step {number} to {end}.", []))
            number = end
            continue
        calls = [_call(action)] * (2 if case.behaviour == "overcalls" else 1)
        text = None
        if case.behaviour == "text_beside_calls":
            text = f"Let me see: {', '.join(case.infos)}"
        plan.append((text, calls))
        number += 1
    if case.behaviour == "wrong_side":  # also where the domain gives the customer no tools
        plan.append((None, [("toggle_airplane_mode", "{}"), ("check_status_bar", "{}")]))
    if case.behaviour == "text_beside_calls" and not any(calls for _, calls in plan):
        plan.append(
            (f"Let me see: {', '.join(case.infos)}", [("calculate", '{"expression": "1"}')])
        )
    return plan


def customer_reply(case: Case, messages: Sequence[JsonObject]) -> Reply:
    """What the customer says or does next."""
    kind = case.behaviour
    mine = sum(message["role"] == "assistant" for message in messages)
    last = messages[-1]
    heard = last.get("content") or ""
    if mine == 0:
        if kind == "out_of_scope":
            return "That is not for you. ###OUT-OF-SCOPE###", []
        return f"Hello, my case number {case.number} needs your help, please.", []
    if kind == "customer_silent" and mine == 1:
        return "", []
    if kind == "customer_calls_agents_tools" and last["role"] != "tool" and mine == 1:
        return "Let me try. ", [("get_user_details", '{"user_id": "me"}'), ("get_data_usage", "{}")]
    if kind == "customer_errors" and mine <= 10:
        return None, [_nothing(mine)]
    if last["role"] == "tool":
        before = [one.get("content") or "" for one in messages if one["role"] == "user"]
        step = _STEP.search(before[-1])
        rounds = _rounds_since(messages)
        if step and kind == "customer_text_beside_calls" and rounds == 1:
            return "And once more, ###STOP###?", [("check_status_bar", "{}")]
        return f"I have done that. I see: {heard[:60]}", []
    if step := _STEP.search(heard):
        own = [one for one in case.actions if one.get("requestor") == "user"]
        chosen = case.actions[int(step[1]) : int(step[2])]
        calls = [_call(one) for one in chosen if one in own]
        if kind == "customer_claims" or not calls:
            return "I have done that, it works very well now.", []
        if kind == "customer_malformed":
            return None, [(calls[0][0], '{"a": ')]
        beside = kind == "customer_text_beside_calls"
        return ("I am at it. ###STOP###" if beside else None), calls
    if kind == "refuses":
        return "Then let me speak with somebody. ###TRANSFER###", []
    if "Anything else" in heard or "anything else" in heard:
        return "No, thank you. ###STOP###", []
    return "Yes, please go on.", []


def _rounds_since(messages: Sequence[JsonObject]) -> int:
    """How many messages with calls the customer has sent since the agent spoke."""
    rounds = 0
    for message in reversed(messages):
        if message["role"] == "user":
            break
        rounds += message["role"] == "assistant"
    return rounds


def judgement(prompt: str) -> str:
    """The judge's answer: an assertion holds where its draw from the transcript says so, but never
    in a talk in which nothing was called."""
    _, _, listed = prompt.partition("expectedOutcomes:\n")
    texts = re.findall(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""", listed)
    results = []
    for one, other in texts:
        text = one or other
        draw = blake2b(f"{text} {prompt}".encode(), digest_size=1).digest()[0]
        met = draw % 4 > 0 and "\ntool: " in prompt
        results.append({"expectedOutcome": text, "reasoning": "drawn", "metExpectation": met})
    return json.dumps({"results": results})


PlansAgent = Callable[[Case], list[Reply]]
PlaysCustomer = Callable[[Case, Sequence[JsonObject]], Reply]


class Models:
    """The server's state: the cases, and the bodies that each side sent."""

    def __init__(self, cases: Sequence[Case], plan: PlansAgent, customer: PlaysCustomer) -> None:
        self._plan, self._customer = plan, customer
        self.cases = {case.number: case for case in cases}
        # (side, case, who) -> the bodies in their order
        self.bodies: dict[tuple[str, int, str], list[JsonObject]] = {}
        self._lock = threading.Lock()

    def answer(self, side: str, body: JsonObject) -> Reply:
        """The reply to a request."""
        messages, who = body["messages"], body["model"]
        if who not in ("agent", "customer"):
            prompt = messages[-1]["content"]
            if _CASE.search(prompt):  # not in the talks of the floor and the ceiling
                self._keep((side, case_in(messages), "judge"), body)
            return judgement(prompt), []
        number = case_in(messages)
        case = self.cases[number]
        self._keep((side, number, who), body)
        if who == "customer":
            return self._customer(case, messages)
        plan = self._plan(case)
        done = sum(message["role"] == "assistant" for message in messages) - 1  # the greeting
        return plan[min(done, len(plan) - 1)]

    def is_cut(self, body: JsonObject) -> bool:
        """Whether the server says of the reply that it ended at its limit of tokens."""
        if body["model"] != "agent":
            return False
        return self.cases[case_in(body["messages"])].behaviour == "cut_off"

    def num_asked(self, side: str) -> int:
        """How many requests of a side have come."""
        with self._lock:
            return sum(len(one) for key, one in self.bodies.items() if key[0] == side)

    def _keep(self, key: tuple[str, int, str], body: JsonObject) -> None:
        with self._lock:
            self.bodies.setdefault(key, []).append(body)


@contextmanager
def serving(models: Models) -> Iterator[str]:
    """Serve on a free port; yields the address, to which the side's name and `/v1` are added."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            try:
                reply = models.answer(self.path.split("/")[1], body)
                content, status = _completion(body, reply, is_cut=models.is_cut(body)), 200
            except (KeyError, ValueError) as exc:
                content, status = {"error": {"message": repr(exc)}}, 400
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _completion(body: JsonObject, reply: Reply, *, is_cut: bool) -> JsonObject:
    text, calls = reply
    message: JsonObject = {"role": "assistant", "content": text}
    if calls:
        number = len(body["messages"])
        message["tool_calls"] = [
            {
                "id": f"call_{number}_{index}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for index, (name, arguments) in enumerate(calls)
        ]
    finish = "length" if is_cut else "tool_calls" if calls else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
