"""The prompts of Agent World Model's released code, read from a checkout of it.

That repository has no licence, so this one contains none of its text; the user names a checkout of
github.com/Snowflake-Labs/agent-world-model. Its files are read and never executed. Profile
`awm-release` accepts the version that it follows and no other, which may act in another way.
"""

import ast
from hashlib import sha256
from pathlib import Path
from textwrap import dedent

import msgspec

from rehearsal_room.scenarios.errors import PackageError

VERSION = "91a9578"
_AGENT, _VERIFY = Path("awm/core/agent.py"), Path("awm/core/verify.py")
_DIGESTS = {
    _AGENT: "0171016d1789c39e883b53affa8e79f7a6775734e213cd0e032c11cd86063b9b",
    _VERIFY: "accb7e32205bf8c1c1c13e5cacda8f46fd869459d725f373f5e270ba985a5477",
}


class ReleasedPrompts(msgspec.Struct, frozen=True):
    """The two system prompts."""

    agent: str
    judge: str


def released_prompts(folder: Path) -> ReleasedPrompts:
    """The prompts in a checkout. Raises PackageError, which names the file."""
    return ReleasedPrompts(
        agent=_prompt(folder, _AGENT, "get_system_prompt"),
        judge=_prompt(folder, _VERIFY, "run_llm_judge"),
    )


def _prompt(folder: Path, file: Path, function: str) -> str:
    """The text that a function returns, or calls `system_prompt`."""
    path = folder / file
    try:
        source = path.read_bytes()
    except OSError as exc:
        raise PackageError(
            f"awm_code: {path}: cannot be read ({exc.strerror}); name a checkout of "
            f"github.com/Snowflake-Labs/agent-world-model at {VERSION}"
        ) from exc
    if sha256(source).hexdigest() != _DIGESTS[file]:
        raise PackageError(
            f"awm_code: {path}: the file is not that of version {VERSION}, which profile "
            f"awm-release follows; check that version out"
        )
    texts: dict[str, str] = {}
    for node in ast.walk(_function(ast.parse(source), function)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id in ("tools_str", "system_prompt"):
                texts[node.targets[0].id] = _text(node.value, texts)
        elif isinstance(node, ast.Return) and "tools_str" in texts:
            return _text(node.value, texts)
    return texts["system_prompt"]


def _function(module: ast.Module, name: str) -> ast.AST:
    return next(
        node
        for node in module.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    )


def _text(node: ast.expr | None, names: dict[str, str]) -> str:
    """The text that an expression of texts, names and `dedent` stands for."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join([_text(part, names) for part in parts])
        case ast.FormattedValue(value=ast.Name(id=name)):
            return names[name]
        case ast.Call(func=ast.Name(id="dedent"), args=[argument]):
            return dedent(_text(argument, names))
    raise AssertionError(f"a file of version {VERSION} has another form")
