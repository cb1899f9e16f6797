"""What the refusals of servers that people use say, in their own words.

The texts in refusals.jsonl are those of vLLM, SGLang, llama.cpp, LM Studio,
text-generation-inference, OpenAI, Azure, Anthropic, Gemini, Groq, Mistral, Together, DeepSeek,
Bedrock, OpenRouter, LiteLLM, xAI, Qwen, Moonshot, Z.ai, MiniMax, Cohere, watsonx, GitHub Models,
Cloudflare, Volcengine, Baidu and others, and some in neighbouring words. `passing`: another attempt
can succeed, `lasting`: none can.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.chat.completions import read_error
from rehearsal_room.harness.chat.retry import is_context_overflow, is_retried, is_withheld

REFUSALS = [
    json.loads(line) for line in Path(__file__).with_name("refusals.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda one: str(one["kind"]))
def test_refusals(refusal: dict[str, Any]) -> None:
    """A full context and a filter are recognised, and not asked again; other refusals are not
    taken for them."""
    failure = read_error(refusal["status"], {}, json.dumps(refusal["body"]).encode())
    kind = refusal["kind"]
    assert (is_context_overflow(failure), is_withheld(failure)) == (
        kind == "full",
        kind == "filtered",
    )
    assert kind == "other" or is_retried(failure) is (kind == "passing")
