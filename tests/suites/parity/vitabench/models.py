"""Deterministic models for VitaBench's parity: agent, customer and judge, as functions of the case
and of what they are sent.

A case is a task and a kind of behaviour; its number stands in the customer's instructions, which
the judge reads, too. The judge's answer on a rubric depends on its text, on the window's text and
on what it said of it before.
"""

import json
import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from tests.suites.parity.tau2_models import Case, JsonObject, Models, Reply, case_in

# name -> what is special about it. The customer cooperates otherwise, and the agent ends the talk.
BEHAVIOURS = {
    "right": "the required orders, one call a message",
    "right_and_liked": "the same, and the judge says yes",
    "cannot": "the agent says that it cannot, and ends the talk",
    "cannot_and_liked": "the same, and the judge says yes",
    "stops_at_once": "the agent's first message is the word that ends the talk",
    "stops_beside_calls": "the word stands beside calls",
    "stops_in_thought": "the word stands in a thought",
    "customer_stops": "the customer ends the talk",
    "text_beside_calls": "the agent talks beside its calls",
    "all_at_once": "all calls in one message",
    "orders_twice": "every required order is made twice",
    "searches": "many searches, so many windows",
    "endless": "both talk until the limit",
    "endless_calls": "the agent calls until the limit",
    "silent": "the agent sends three replies without words and calls",
    "silent_twice": "two such replies, twice, and then the right ones",
    "null_content": "a reply whose content is null, then right",
    "unknown_tools": "calls of tools that there are not",
    "bad_types": "arguments that are missing, unknown, or of another type",
    "blank_arguments": "a call with an empty text as its arguments",
    "odd_texts": "accents, line breaks, braces and thoughts in what is said",
    "customer_calls": "the customer calls a tool, which it does not have",
    "customer_thinks": "the customer writes a thought",
    "judge_says_yes_in_words": "the judge writes true and false as texts",
    "judge_leaves_out": "the judge says something of every second rubric only",
    "judge_fences": "the judge's list stands in a fence, with words around it",
    "judge_speaks_of_others": "the judge names rubrics that there are not",
}
# Tasks that upstream plays four times and then leaves out; here they count as failed.
FAILING = {
    "malformed_arguments": "arguments that are cut off",
    "list_arguments": "arguments that are a list",
    "customer_silent": "the customer's second message is empty",
    "judge_gibberish": "the judge answers in words",
    "judge_object": "the judge answers with an object",
}
MADE = re.compile(r"\b(?:order_id|book_id|reservation_id)[:=]([^,\s]+)")
LAST = "$last"  # in a plan: the id in the result before
_WINDOW = re.compile(r"<window_content>\n(.*)\n</window_content>", re.DOTALL)
_RUBRICS = re.compile(r"<current_rubrics>\n(.*)\n</current_rubrics>", re.DOTALL)


def required_calls(task: JsonObject) -> list[tuple[str, JsonObject]]:
    """Calls that make the required orders."""
    environment = task["environment"]
    user, time = environment["user_id"], environment["time"]
    start = {**environment["orders"], **(environment.get("books") or {})}
    start |= environment.get("reservations") or {}
    calls: list[tuple[str, JsonObject]] = []
    states = task["evaluation_criteria"]["expected_states"]
    seen = set()
    for order in (order for state in states for order in state["required_orders"]):
        products = [one for one in order.get("products") or () if "product_id" in one]
        if (text := json.dumps(order, sort_keys=True)) in seen:
            continue
        seen.add(text)
        names = ("order_id", "reservation_id", "book_id")
        identifier = next((order[name] for name in names if order.get(name)), "")
        kind = order.get("order_type")
        if identifier in start:
            if order["status"] == "cancelled":
                tool = "cancel_delivery_order" if kind == "delivery" else "instore_cancel_order"
                calls.append((tool, {"order_id": identifier}))
        elif kind == "delivery":
            arguments = {
                "user_id": user,
                "store_id": order["store_id"],
                "product_ids": [one["product_id"] for one in products],
                "product_cnts": [one["quantity"] for one in products],
                "address": order["location"]["address"],
                "dispatch_time": (order["dispatch_time"] or time).strip(),
                "attributes": [str(one.get("attributes") or "") for one in products],
                "note": order["note"] or "",
            }
            calls += [("create_delivery_order", arguments), ("pay_delivery_order", _last())]
        elif kind is not None:
            for one in products:
                arguments = {"user_id": user, "shop_id": order["store_id"]}
                arguments |= {"product_id": one["product_id"], "quantity": one["quantity"]}
                calls += [("create_instore_product_order", arguments)]
                calls += [("pay_instore_order", _last())]
        else:
            arguments = {"user_id": user, "shop_id": order["shop_id"]}
            arguments["customer_count"] = order["customer_count"]
            tool = "instore_reservation" if "reservation_time" in order else "instore_book"
            arguments["time"] = order.get("reservation_time") or order["book_time"]
            calls.append((tool, arguments))
            if tool == "instore_book":
                calls.append(("pay_instore_book", {"book_id": LAST}))
    return calls


def _last() -> JsonObject:
    return {"order_id": LAST}


_EMPTY: Reply = ("", [])
_ASKS: Reply = ("Everything is done. Anything else?", [])
_BYE: Reply = ("Goodbye. ###STOP###", [])


def agent_plan(case: Case) -> list[Reply]:
    """The agent's replies, one after the other; the last one again and again."""
    kind = case.behaviour
    task = case.task
    user = task["environment"]["user_id"]
    calls = [(name, json.dumps(given)) for name, given in required_calls(task)]
    right: list[Reply] = [(None, [call]) for call in calls]
    domain = "instore" if "shops" in task["environment"] else "delivery"
    search = "instore_shop_search_recommend" if domain == "instore" else None
    search = search or "delivery_store_search_recommand"
    look = (search, json.dumps({"keywords": ["good"]}))
    if kind.startswith("cannot"):
        return [("I am sorry, I cannot do that. ###STOP###", [])]
    if kind == "stops_at_once":
        return [("###STOP###", [])]
    if kind == "stops_beside_calls":
        return [*right[:2], ("That is all. ###STOP###", calls[2:3] or [look])]
    if kind == "stops_in_thought":
        return [*right, ("<think>Shall I say ###STOP### now?</think>Anything else?", [])]
    if kind == "customer_stops":
        return [*right, _ASKS]
    if kind == "text_beside_calls":
        return [(f"Let me do step {at}.", [call]) for at, call in enumerate(calls)] + [_ASKS, _BYE]
    if kind == "all_at_once":
        return [(None, [look, *calls]), _ASKS, _BYE]
    if kind == "orders_twice":
        return [reply for reply in right for _ in range(2)] + [_ASKS, _BYE]
    if kind == "searches":
        words = [(None, [(search, json.dumps({"keywords": [f"word {at}"]}))]) for at in range(14)]
        return [*words, *right, _ASKS, _BYE]
    if kind == "endless":
        return [(f"One moment, please ({at}).", []) for at in range(400)]
    if kind == "endless_calls":
        return [("Let me see.", [("get_user_all_orders", "{}")])]
    if kind == "silent":
        return [*right[:1], _EMPTY]
    if kind == "unknown_tools":
        return [(None, [("no_such_tool", '{"a": 1}'), look]), ("", [("", "{}")]), *right, _BYE]
    if kind == "bad_types":
        name, arguments = calls[0] if calls else look
        given = json.loads(arguments)
        odd = [{}, {**given, "unknown_é": None}, {one: [1] for one in given}, {"requestor": "x"}]
        return [(None, [(name, json.dumps(one))]) for one in odd] + [*right, _ASKS, _BYE]
    texts = {"malformed_arguments": '{"a": ', "list_arguments": "[1]", "blank_arguments": ""}
    if kind in texts:
        return [*right[:1], (None, [("get_user_all_orders", texts[kind])]), *right[1:], _BYE]
    if kind == "odd_texts":
        said = f"<think>hm {user}</think>\nC'est fait {{voilà}} — \u201c1,286.00 €\u201d\n\n好的"
        return [*right, (said, []), _BYE]
    return [*right, _ASKS, _BYE]


def agent_reply(case: Case, messages: Sequence[JsonObject], tries: int) -> Reply:
    """The agent's next reply; `tries` counts the requests with these messages before."""
    plan = agent_plan(case)
    done = sum(message["role"] == "assistant" for message in messages)
    kind = case.behaviour
    if (kind == "silent_twice" and done in (0, 2) and tries < 2) or (
        kind == "null_content" and done == 1 and tries < 1
    ):
        return ("\n " if kind == "silent_twice" else None), []
    text, calls = plan[min(done, len(plan) - 1)]
    made = [one for message in messages for one in MADE.findall(message.get("content") or "")]
    last = made[-1] if made else "none"
    return text, [(name, arguments.replace(LAST, last)) for name, arguments in calls]


def customer_reply(case: Case, messages: Sequence[JsonObject]) -> Reply:
    """What the customer says next."""
    kind = case.behaviour
    mine = sum(message["role"] == "assistant" for message in messages)
    if mine == 0:
        return f"Hello, my case number {case.number} needs your help.", []
    if kind == "customer_silent":
        return "", []
    if kind == "customer_calls" and mine <= 2 and messages[-1]["role"] != "tool":
        return "Let me try.", [("get_user_all_orders", "{}"), ("no_such_tool", '{"a": 1}')]
    if kind in ("customer_stops", "stops_in_thought"):
        return "No, thank you. ###STOP###", []
    if kind == "customer_thinks":
        return "<think>Am I done?</think>No, thank you.", []
    return "No, thank you." if "else" in (messages[-1].get("content") or "") else "Go on.", []


def judgement(case: Case, prompt: str) -> str:
    """The judge's answer on a window."""
    kind = case.behaviour
    window, rubrics = _WINDOW.search(prompt), _RUBRICS.search(prompt)
    assert window is not None and rubrics is not None
    if kind == "judge_gibberish":
        return "I think that all of it is fine"
    answers = []
    for one in json.loads(rubrics[1]):
        text = f"{one['rubric']} {window[1]} {one['justification']} {one['meetExpectation']}"
        digest = blake2b(text.encode(), digest_size=4)
        met: Any = kind.endswith("liked") or digest.digest()[0] % 6 > 0
        if kind == "judge_says_yes_in_words":
            met = str(met).lower()
        answers.append(
            {**one, "justification": f"seen {digest.hexdigest()}", "meetExpectation": met}
        )
    if kind == "judge_leaves_out":
        answers = [{k: v for k, v in one.items() if k != "justification"} for one in answers[::2]]
    if kind == "judge_speaks_of_others":
        answers.append({"rubric_idx": "rubric_99", "meetExpectation": False})
        answers.append({"meetExpectation": False})
    if kind == "judge_object":
        return json.dumps(answers[0])
    said = json.dumps(answers, ensure_ascii=False, indent=1)
    return f"Here it is:\n```json\n{said}\n```\n" if kind == "judge_fences" else said


class VitaModels(Models):
    """The three models, and the bodies that each side sent."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__(cases, agent_plan, customer_reply)

    def answer(self, side: str, body: JsonObject) -> Reply:
        """The reply to a request."""
        messages, who = body["messages"], body["model"]
        number = case_in(messages)
        case, key = self.cases[number], (side, number, who)
        tries = 0
        for sent in reversed(self.bodies.get(key, [])):
            if sent["messages"] != messages:
                break
            tries += 1
        self._keep(key, body)
        if who == "judge":
            return judgement(case, messages[-1]["content"]), []
        if who == "customer":
            return customer_reply(case, messages)
        return agent_reply(case, messages, tries)
