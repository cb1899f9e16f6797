"""The refusals that say: this is too long for the model's context, the provider filters it, or this
passes by itself whatever the status is.

Servers have no common code for any of these, so their codes and their wordings are listed here.
"""

import re

# 429: a limit of tokens a minute has similar words, and passes by itself.
_NOT_ABOUT_LENGTH = frozenset({401, 402, 403, 404, 408, 409, 429})
_CODES = frozenset(
    {
        *("context_length_exceeded", "exceed_context_size_error", "tokens_limit_reached"),
        *("context_window_exceeded", "model_context_window_exceeded", "prompt_too_long"),
        *("contextwindowexceedederror", "request_too_large", "max_tokens_exceeded"),
        *("1261", "336007", "oversizetext"),  # Z.ai's, Baidu's and Volcengine's
    }
)
_WORDS = re.compile(
    r"context[ _-]?(length|window|size|limit)|contextwindow"
    r"|maximum (model|prompt|input|sequence|allowed input) length"
    r"|max_model_len|max_seq_len|max_position_embeddings|\bn_ctx\b"
    r"|messages\[\d+\]\.content[^.]{0,40}too long|input validation error: `inputs`"
    r"|(token limit exceeded|exceeded( the)? model token limit)"
    r"|(inputs?|prompt)[ _]tokens?\b[^.]{0,40}(must be|larger than|more than|less than|<=)"
    r"|(input|prompt) token count is [\d,]+ but|request contains [\d,]+ tokens"
    r"|too large[^.]{0,40}\. max size: [\d,]+ tokens|expected maxlength: \d+"
    r"|sequence of [\d,]+ tokens does not fit"
    r"|sequence length [\d,]+ exceeds|prompt length of [\d,]+ is longer"
    r"|(prompt|input|request|message|conversation|history)s?( tokens?)?( length)?"
    r"( (is|are|was))? too (long|large)"
    r"|too many (input |prompt )?tokens|too long for (the|this) model"
    r"|reduce the length of (the|your) (messages|prompt|input)"
    r"|(input|prompt)( token)?s?( count| length| size)?( \([^)]{0,60}\))?"
    r"( of [\d,]+( tokens)?)? exceeds?\b"
    r"|exceeds?( the)? (maximum|max|limit|model|allowed)[^.]{0,60}\btokens?\b"
    r"|tokens?\b[^.]{0,40} exceeds?( the)? (maximum|max|limit|model)"
    r"|exceeded max(imum)? (context|tokens)|max tokens of [\d,]+ exceeded"
    r"|(input|prompt) tokens?\b[^.]{0,40}(cannot|must not|should not|may not) exceed"
    r"|(input|prompt|sequence) length[^.]{0,30} exceeds?( the)? (max|limit)"
    r"|(input|prompt)[^.]{0,20} [\d,]+ tokens[^.]{0,40}\b(exceeds?|(larger|longer|more) than)"
    r"|requested [\d,]+ tokens, but (the|this) model|token length [\d,]+ exceeds|\bsession_len\b"
    r"|(request )?payload size exceeds|cannot be enqueued\. total cache"
    r"|max length of current question"
    r"|超长|(超过|超出)[^。]{0,20}(长度|上下文)|(长度|上下文|token ?数)[^。]{0,20}(超过|超出|超限)"
    r"|range of input length|longer than the (model|maximum)"
    r"|(inputs?|prompt) tokens? \+ [`'\"]?max_(new_)?tokens|max_new_tokens"
    r"|max_(completion_)?tokens[`'\"]? must be (at least|greater than|positive|>=?)[^.]{0,20}"
    r"\bgot -?\d+|max_(completion_)?tokens[`'\"]?[^.]{0,40}(got|=|:) ?-\d+",
    re.IGNORECASE,
)
# A limit of tokens in some time, under whatever status a gateway sends it: it passes by itself.
_RATE = re.compile(
    r"\bper (second|minute|hour|day|min|month)\b|wait before (trying|retrying)|rate ?limit|throttl"
    r"|\b[TR]P[MD]\b|速率",
    re.IGNORECASE,
)
# A limit of what is asked for, whatever the prompt is.
_ABOUT_OUTPUT = re.compile(
    r"^(?!.*(context|prompt|input|messages)).*max_(completion_)?tokens\b.*(maximum|max)[^.]{0,30}"
    r"\b(output|completion)",
    re.IGNORECASE | re.DOTALL,
)
_FILTER_CODES = frozenset(
    {
        *("content_filter", "content_policy_violation", "responsibleaipolicyviolation"),
        *("data_inspection_failed", "datainspectionfailed", "content_filtered", "moderation"),
        *("prohibited_content", "sensitive_content", "content_moderation"),
        *("sensitivecontentdetected", "content_illegal", "censorship_blocked", "hooks_failed"),
        *("cyber_policy_violation", "1301", "1026", "1027"),  # Z.ai's, and MiniMax's
    }
)
_FILTERED = re.compile(
    r"content management policy|content exists risk|safety system|violating our (usage|content)"
    r"|inappropriate content|blocked by [\w ]{0,30}(safety|content|moderation)"
    r"|input (was )?flagged|responsible ai polic|prohibited_content|(input|output) new_sensitive"
    r"|content[ _]?policy[ _]?violation|violated? [\w ]{0,20}(guardrail|moderation) policy"
    r"|violates? (our |the )?usage (guidelines|polic)|may violate our (polic|usage|content|terms)"
    r"|(prompt|response|input|output)s? (was |is |has been )?blocked (by|due to)"
    r"|for safety reasons|flagged for possible|unsafe or sensitive content|content security of"
    r"|may contain sensitive information|guardrail checks?[^.]{0,40}failed"
    r"|不安全|敏感内容|内容安全",
    re.IGNORECASE,
)


def tells_overflow(status: int, code: str, message: str) -> bool:
    """Whether an error says that prompt and reply do not fit into the model's context. `status` 0:
    the error came with status 200.

    Example: 500, "exceed_context_size_error", "the request exceeds ..." -> True
    """
    if status in _NOT_ABOUT_LENGTH or _ABOUT_OUTPUT.search(message):
        return False
    if code.lower() in _CODES:
        return True
    return _WORDS.search(message) is not None and not _RATE.search(message)


def tells_filter(status: int, code: str, message: str) -> bool:
    """Whether an error says that the provider does not answer this content.

    Example: 400, "content_filter", "The response was filtered ..." -> True
    """
    if status in (401, 429) or status >= 500:
        return False
    return code.lower() in _FILTER_CODES or _FILTERED.search(message) is not None


_PASSING_CODES = frozenset(
    {
        # The model wrote a call, or JSON, that the server cannot read: a failed generation.
        *("tool_use_failed", "tool_call_failed", "json_validate_failed", "output_parse_failed"),
        *("model_error", "modelerrorexception", "capacity_exceeded"),
    }
)
_PASSING = re.compile(
    r"failed to (call a function|generate (a |the )?(tool|function|json))"
    r"|model (has |had )?crashed|model (was )?unloaded|model produced invalid",
    re.IGNORECASE,
)


def tells_passing(status: int, code: str, message: str) -> bool:
    """Whether another attempt can succeed although the status says that the request is wrong: the
    generation failed, or the model is loaded again.

    Example: 400, "tool_use_failed", "Failed to call a function. ..." -> True (Groq)
    """
    if status not in (400, 422):
        return False
    return code.lower() in _PASSING_CODES or _PASSING.search(message) is not None
