"""The spans of an agent as a tree."""

from collections.abc import Iterable, Iterator

from rehearsal_room.harness.core.events import AgentSpan

# Attributes that say what a span is about: OpenTelemetry's, Claude Code's, OpenInference's.
_SUBJECTS = (
    *("gen_ai.tool.name", "tool_name", "tool.name"),
    *("gen_ai.request.model", "llm.model_name"),
)


def subject_of(span: AgentSpan) -> str:
    """The tool or the model that a span is about; empty: its name says it, or it is about neither.

    Example: a span `claude_code.tool` with the attribute tool_name="find" -> "find"
    """
    found = (str(span.attributes.get(name, "")) for name in _SUBJECTS)
    return next((one for one in found if one and one not in span.name), "")


def in_tree_order(spans: Iterable[AgentSpan]) -> Iterator[tuple[int, AgentSpan]]:
    """Yield each span once, with its depth: a span, then those that belong to it, by when they
    began. A span whose parent is not among them is at depth 0, and so is the earliest one of a
    circle.

    Example: b (of a), a, c (of b), d -> (0, a), (1, b), (2, c), (0, d)
    """
    ordered = sorted(spans, key=lambda span: span.began)
    known = {(span.trace, span.id) for span in ordered}
    inner: dict[tuple[str, str], list[AgentSpan]] = {}
    for span in ordered:
        inner.setdefault((span.trace, span.parent), []).append(span)
    roots = [span for span in ordered if (span.trace, span.parent) not in known]
    seen = set[tuple[str, str]]()
    for root in (*roots, *ordered):
        waiting = [(0, root)]
        while waiting:
            depth, span = waiting.pop()
            key = span.trace, span.id
            if key not in seen:
                seen.add(key)
                yield depth, span
                waiting += [(depth + 1, one) for one in reversed(inner.get(key, ()))]
