"""Answers of status 2xx in forms that servers and gateways which people use are known to send, and
that are not OpenAI's: why they ended, where their errors are, what is around and in them."""

import json
from typing import Any

import pytest

from rehearsal_room.envpool.core.arguments import read_arguments
from rehearsal_room.harness.chat.completions import read_completion, read_error
from rehearsal_room.harness.chat.retry import is_context_overflow, is_retried, is_withheld
from rehearsal_room.harness.core.messages import Reply, Usage

CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
HI = {"content": "hi"}


def choice(message: Any = None, finish: Any = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", **message} if isinstance(message, dict) else message
    return {"index": 0, "message": message, "finish_reason": finish, **more}


def body(*choices: Any, **more: Any) -> bytes:
    return json.dumps({"choices": list(choices), **more}).encode()


def meaning(content: bytes) -> str:
    """What an answer is taken for."""
    found = read_completion(content)
    if isinstance(found, Reply):
        return "cut" if found.was_cut else "calls" if found.calls else "reply"
    if is_withheld(found):
        return "refused"
    if is_context_overflow(found):
        return "full"
    return "passing" if is_retried(found) else "lasting"


ENDS: list[tuple[dict[str, Any], str]] = [
    # Gemini's endpoint puts its own word before the cause.
    (choice({}, "function_call_filter: MALFORMED_FUNCTION_CALL"), "passing"),
    (choice({}, "function_call_filter: UNEXPECTED_TOOL_CALL"), "passing"),
    (choice({}, "content_filter: PROHIBITED_CONTENT"), "refused"),
    (choice(HI, "content_filter: RECITATION"), "refused"),
    (choice(HI, "FinishReason.MAX_TOKENS"), "cut"),
    (choice(HI, "FINISH_REASON_SAFETY"), "refused"),
    (choice(HI, "FinishReason.STOP"), "reply"),
    (choice(HI, "MODEL_ARMOR"), "refused"),
    (choice(HI, "MALFORMED_RESPONSE"), "passing"),
    (choice({}, "OTHER"), "passing"),
    # Bedrock, Cohere, Ollama, llama.cpp, vLLM
    (choice(HI, "malformed_model_output"), "passing"),
    (choice(HI, "malformed_tool_use"), "passing"),
    (choice(HI, "USER_CANCEL"), "passing"),
    (choice({"content": ""}, "load"), "passing"),
    (choice({"tool_calls": [CALL]}, "tool"), "calls"),
    (choice(HI, "tool"), "passing"),
    (choice({"content": "x x x x"}, "repetition"), "cut"),
    # SGLang's objects
    (choice(HI, {"type": "length", "length": 128}), "cut"),
    (choice(HI, {"type": "abort", "message": "Abort"}), "passing"),
    (choice(HI, {"type": "stop", "matched": 151645}), "reply"),
    # OpenRouter says what the model's provider said.
    (choice({"content": ""}, "stop", native_finish_reason="MALFORMED_FUNCTION_CALL"), "passing"),
    (choice({"content": None}, "stop", native_finish_reason="content_filter"), "refused"),
    (choice({"content": "half"}, "stop", native_finish_reason="MAX_TOKENS"), "cut"),
    (choice({"content": "half"}, None, native_finish_reason="error"), "passing"),
    (choice({"tool_calls": [CALL]}, "tool_calls", native_finish_reason="completed"), "calls"),
    (choice(HI, "stop", native_finish_reason="STOP"), "reply"),
    # Under other names, in other spellings
    (choice(HI, None, stop_reason="max_tokens"), "cut"),
    (choice(HI, None, done_reason="length"), "cut"),
    (choice(HI, None, finish_details={"type": "max_tokens"}), "cut"),
    (choice(HI, "stop", stop_reason=128009), "reply"),
    (choice(HI, None, stop_reason="</tool_call>"), "reply"),
    (choice(HI, "maxTokens"), "cut"),
    (choice(HI, "contentFilter"), "refused"),
    # No word, and words that are unknown: what has neither text nor calls has failed.
    (choice(HI, "null"), "reply"),
    (choice({"content": ""}, "null"), "passing"),
    (choice({"content": ""}, "None"), "passing"),
    (choice({"content": None}, "tired"), "passing"),
    (choice(HI, "tired"), "reply"),
    (choice({"content": ""}, "stop"), "reply"),
]


@pytest.mark.parametrize(("sent", "expected"), ENDS, ids=lambda one: str(one)[-60:])
def test_why_replies_end(sent: dict[str, Any], expected: str) -> None:
    """A failed, withheld or cut generation is found in each server's spelling."""
    assert meaning(body(sent)) == expected


ERRORS: list[tuple[Any, str]] = [
    ({"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, "passing"),
    ({"choices": None, "base_resp": {"status_code": 1004, "status_msg": "login fail"}}, "lasting"),
    ({"choices": [], "base_resp": {"status_code": 1027, "status_msg": "sensitive"}}, "refused"),
    ({"base_resp": {"status_code": 2013, "status_msg": "context window exceeds limit"}}, "full"),
    ({"choices": [choice(HI)], "base_resp": {"status_code": 0, "status_msg": ""}}, "reply"),
    ({"error_code": 336007, "error_msg": "the max length of current question is 20"}, "full"),
    ({"error_code": 18, "error_msg": "Open api qps request limit reached"}, "passing"),
    ({"code": 500, "message": "upstream busy", "data": None}, "passing"),
    ({"code": 401, "msg": "token invalid"}, "lasting"),
    ({"error": True, "message": "prompt is too long: 9 tokens > 8 maximum"}, "full"),
    ({"error": "rate limit exceeded", "status": 429}, "passing"),
    ({"error": {"statusCode": 400, "message": "unknown role 'tool'"}}, "lasting"),
    ({"error": {"type": "authentication_error", "message": "Invalid API key"}}, "lasting"),
    ({"error": {"type": "overloaded_error", "message": "Overloaded"}}, "passing"),
    ({"error": {"message": "Too many tokens, please wait before trying again."}}, "passing"),
    ({"Response": {"Error": {"Code": "Internal", "Message": "busy"}}}, "passing"),
    ({"success": False, "errors": [{"code": 5021, "message": "prompt is too long"}]}, "full"),
    ({"error": "Unexpected endpoint or method. (POST /chat/completions)"}, "lasting"),
    # Gateways that always have an error's fields
    ({"choices": [choice(HI)], "error": {"message": "", "type": "", "code": None}}, "reply"),
    ({"choices": [choice(HI)], "error": {"message": "success", "code": 0}}, "reply"),
    ({"choices": [choice(HI)], "error": {"message": "lost", "code": ""}}, "passing"),
]


@pytest.mark.parametrize(("sent", "expected"), ERRORS, ids=lambda one: str(one)[:60])
def test_errors_with_status_200(sent: Any, expected: str) -> None:
    """An error is found where a server puts it, and says whether another attempt can help."""
    assert meaning(json.dumps(sent).encode()) == expected


WHOLE = body(choice(HI))
AROUND = {
    "a stream's end": WHOLE + b"\ndata: [DONE]\n\n",
    "zero bytes": WHOLE + b"\0\0",
    "null": WHOLE + b"null",
    "line breaks before it": b"\n \n" + WHOLE,
    "not a number": body(choice(HI, logprobs=0.5)).replace(b"0.5", b"NaN"),
    "infinity": body(choice(HI), timings=0.5).replace(b"0.5", b"-Infinity"),
    "in a list": b"[" + WHOLE + b"]",
    "as a text": json.dumps(WHOLE.decode()).encode(),
    "in data": json.dumps({"code": 200, "message": "ok", "data": json.loads(WHOLE)}).encode(),
    "in result": json.dumps({"success": True, "result": json.loads(WHOLE)}).encode(),
    "choices by number": json.dumps({"choices": {"0": choice(HI)}}).encode(),
    "one choice": json.dumps({"choices": choice(HI)}).encode(),
    "message as a text": body(choice("hi")),
}


@pytest.mark.parametrize("content", AROUND.values(), ids=AROUND)
def test_what_is_around_a_reply(content: bytes) -> None:
    """JSON that is nearly JSON, and envelopes, lose no reply."""
    assert read_completion(content) == Reply("hi")


def test_line_breaks_in_strings_are_read() -> None:
    """A server that writes its JSON by hand leaves line breaks in strings as they are."""
    assert read_completion(body(choice({"content": "aXb"})).replace(b"X", b"\n")) == Reply("a\nb")


def test_many_values_are_no_reply() -> None:
    """A server that sends numbers without end costs no more than their bytes."""
    assert meaning(b"1 " * 500_000) == "passing"


def test_parts_with_empty_fields_are_no_calls() -> None:
    """Libraries write each field that a part could have."""
    part = {"text": "hi", "functionCall": None, "toolUse": None, "tool_use": None}
    assert read_completion(body(choice({"content": [part]}))) == Reply("hi")


@pytest.mark.parametrize("rest", [b'{"error": {"message": "lost"}}', WHOLE, b"garbage"])
def test_what_follows_a_reply_may_spoil_it(rest: bytes) -> None:
    """An error after a reply counts, and of two replies none is chosen."""
    assert meaning(WHOLE + rest) == "passing"


CALLS: dict[str, Any] = {
    "as JSON text": {"tool_calls": json.dumps([CALL])},
    "by number": {"tool_calls": {"0": CALL}},
    "a list in a list": {"tool_calls": [[CALL]]},
    "beside null": {"tool_calls": [None, CALL]},
    "function as JSON text": {"tool_calls": [{**CALL, "function": json.dumps(CALL["function"])}]},
    "parameters": {
        "tool_calls": [{"id": "a", "function": {"name": "look", "parameters": {"at": "sky"}}}]
    },
    "Bedrock's part": {
        "content": [{"toolUse": {"toolUseId": "a", "name": "look", "input": {"at": "sky"}}}]
    },
    "Gemini's part": {
        "content": [{"functionCall": {"id": "a", "name": "look", "args": {"at": "sky"}}}]
    },
}


@pytest.mark.parametrize("message", CALLS.values(), ids=CALLS)
def test_calls_in_other_forms(message: dict[str, Any]) -> None:
    """No call and no argument is lost, and nothing of it goes back as a further field."""
    found = read_completion(body(choice(message, "tool_calls")))
    assert isinstance(found, Reply)
    (call,) = found.calls
    assert (call.name, call.arguments, call.id, call.fields) == ("look", {"at": "sky"}, "a", None)


def test_calls_beside_the_message() -> None:
    """A gateway may put them into the choice."""
    found = read_completion(body({**choice({"content": None}), "tool_calls": [CALL]}))
    assert isinstance(found, Reply) and found.calls[0].name == "look"


@pytest.mark.parametrize(
    ("sent", "read"),
    [("[]", {}), ([], {}), ('""', {}), (json.dumps('{"at": "sky"}'), {"at": "sky"}), ("[1]", None)],
)
def test_arguments_in_other_forms(sent: Any, read: Any) -> None:
    """PHP's empty object and arguments that are encoded twice are what they stand for; another
    array is none."""
    call = {"id": "a", "function": {"name": "look", "arguments": sent}}
    found = read_completion(body(choice({"tool_calls": [call]})))
    assert isinstance(found, Reply)
    assert read_arguments(found.calls[0].arguments)[0] == read


@pytest.mark.parametrize(
    ("sent", "usage"),
    [
        # xAI's completion tokens are without the thoughts, and so are Gemini's.
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 315,
                "completion_tokens_details": {"reasoning_tokens": 300},
            },
            Usage(10, 305, 0, 300),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 315}, Usage(10, 305)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 2**60}, Usage(10, 5)),
        # A gateway whose prompt is without what its cache had
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 915,
                "prompt_tokens_details": {"cached_tokens": 900},
            },
            Usage(10, 5, 900),
        ),
        (
            {"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4}},
            Usage(10, 5, 4),
        ),
        # Anthropic's input is without what was written to its cache, and read from it.
        (
            {
                "input_tokens": 3,
                "output_tokens": 7,
                "cache_read_input_tokens": 5000,
                "cache_creation_input_tokens": 100,
            },
            Usage(5103, 7, 5000),
        ),
        ({"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}, Usage(10, 5)),
        ({"prompt_eval_count": 10, "eval_count": 5}, Usage(10, 5)),
        ({"promptTokenCount": 10, "candidatesTokenCount": 5}, Usage(10, 5)),
        (
            {
                "billed_units": {"input_tokens": 9},
                "tokens": {"input_tokens": 9, "output_tokens": 5},
            },
            Usage(9, 5),
        ),
    ],
    ids=lambda one: str(one)[:40],
)
def test_usage_under_other_names(sent: Any, usage: Usage) -> None:
    """Tokens are counted under the names of other servers, thoughts and caches included."""
    found = read_completion(body(choice(HI), usage=sent))
    assert isinstance(found, Reply) and found.usage == usage


@pytest.mark.parametrize(
    ("message", "num_tokens", "expected"),
    [
        ({"content": ""}, 0, "full"),
        ({"content": None}, 0, "full"),
        ({"content": ""}, 9, "cut"),  # of a thought that the server keeps to itself
        ({"content": "half"}, 0, "cut"),
        ({"tool_calls": [CALL]}, 0, "cut"),
    ],
)
def test_a_prompt_that_leaves_no_room(message: Any, num_tokens: int, expected: str) -> None:
    """A reply that was cut off before its first token says that the context is full."""
    usage = {"prompt_tokens": 4096, "completion_tokens": num_tokens}
    assert meaning(body(choice(message, "length"), usage=usage)) == expected
    assert meaning(body(choice(message, "length"))) == "cut"


def test_what_was_not_understood_is_shown() -> None:
    """A failure shows the beginning of what came, and the title of a web page."""
    for content, shown in (
        (b'{"id": 7, "object": "chat.completion"}', "contains no choice: {"),
        (b"upstream connect error or disconnect", "'upstream connect error"),
        (b"<html><title>502 Bad\nGateway</title>", "a web page (HTML, '502 Bad Gateway')"),
    ):
        assert shown in str(read_completion(content))
    page = b"<!doctype html><html><title>Just a moment...</title>" + b"x" * 9000
    assert read_error(403, {}, page).message == "a web page (HTML, 'Just a moment...')"
