"""How much code each suite has: lines that are neither blank nor comments nor docstrings, in the
modules that are the suite's alone, and its parts of modules that suites share.

`python -m tests.scenarios.suites.test_sizes` prints them, and all lines of the same places.
"""

import ast
import io
import sys
import tokenize
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import pytest

from tests.support.paths import ROOT

MOST = 600  # lines of code
MORE = {  # suites that have more, since they play all that another one plays, too
    "bfcl_v4": 800,  # all of v3, memory, web search, and a formula of its own
    "tau2_banking": 780,  # all of retail, and documents and tools that are unlocked
}
SUITES, ADAPTERS = "scenarios/suites/", "envpool/objects/adapters/"
DIALECTS, SCORES = "harness/dialects/", "judge/suites/scores.py"
CATALOGUE = f"{SUITES}catalogue.py"
FOLDERS = (SUITES, f"{SUITES}bfcl/", f"{SUITES}listings/", ADAPTERS, DIALECTS)
SHARED = {
    *(f"{SUITES}{name}.py" for name in ("catalogue", "checkouts", "entries", "measured")),
    *(f"{SUITES}{name}.py" for name in ("server_lists", "suite_flags")),
    f"{ADAPTERS}shared.py",
    *(f"{DIALECTS}{name}.py" for name in ("awm", "awm_release", "base", "format_rules", "hermes")),
    *(f"{DIALECTS}{name}.py" for name in ("imitation", "native", "registry", "verbatim")),
}


class Own(NamedTuple):
    """What a suite has: modules, and names of other modules; `without` names of other suites."""

    modules: tuple[str, ...]
    parts: dict[str, tuple[str, ...]]
    without: Mapping[str, tuple[str, ...]] = MappingProxyType({})


_BFCL = (
    *(f"{SUITES}bfcl_entries.py", f"{SUITES}bfcl/answers.py", f"{SUITES}bfcl/tools.py"),
    *(f"{ADAPTERS}bfcl.py", f"{DIALECTS}bfcl.py"),
)
_TAU2 = (f"{SUITES}tau2.py", f"{ADAPTERS}tau.py", f"{DIALECTS}tau2.py")
OWN = {
    "bfcl_v3": Own(
        _BFCL,
        {SCORES: ("bfcl_groups", "_bfcl_overall"), CATALOGUE: ("_open_bfcl", "bfcl.NAME")},
        {
            f"{SUITES}bfcl_entries.py": ("_agentic", "digest_of_v4", "RELEASES_V4", "LIVE_SIZES"),
            f"{ADAPTERS}bfcl.py": ("rules", "_agentic", "_message_of"),
        },
    ),
    "bfcl_v4": Own(
        (*_BFCL, f"{SUITES}bfcl/agentic.py"),
        {
            SCORES: (
                *("bfcl_groups", "_bfcl_overall"),
                *("bfcl_v4_groups", "bfcl_v4_overall", "_WHOLE"),
            ),
            CATALOGUE: ("_open_bfcl", "bfcl.NAME", "_open_bfcl_v4", "bfcl.NAME_V4"),
        },
    ),
    "agentdojo": Own(
        (
            *(f"{SUITES}agentdojo.py", f"{SUITES}listings/agentdojo_tasks.py"),
            *(f"{ADAPTERS}dojo.py", f"{DIALECTS}agentdojo.py"),
        ),
        {SCORES: ("_attack_groups", "_FIGURES"), CATALOGUE: ("_open_agentdojo", "agentdojo.NAME")},
    ),
    "tau2_retail": Own(
        _TAU2,
        {CATALOGUE: ("_tau2", "_tau2_domain", "_TAU2_TASKS")},
        {f"{ADAPTERS}tau.py": ("_share_indices", "_as_shared", "_shared", "_SHARED")},
    ),
    "tau2_banking": Own(
        (*_TAU2, f"{SUITES}tau2_banking.py"),
        {CATALOGUE: ("_tau2", "_tau2_domain", "_TAU2_TASKS", "_tau2_banking")},
    ),
    "vitabench": Own(
        (f"{SUITES}vitabench.py", f"{ADAPTERS}vitabench.py", f"{DIALECTS}vita.py"),
        {SCORES: ("_vitabench_groups",), CATALOGUE: ("_vitabench",)},
    ),
    "toolsandbox": Own(
        (
            *(f"{SUITES}toolsandbox.py", f"{SUITES}listings/toolsandbox_tasks.py"),
            *(f"{ADAPTERS}sandbox.py", f"{DIALECTS}toolsandbox.py"),
        ),
        {SCORES: ("sandbox_groups", "_sandbox_overall"), CATALOGUE: ("toolsandbox.NAME",)},
    ),
    "enterpriseops": Own(
        (
            *(f"{SUITES}enterpriseops.py", f"{ADAPTERS}enterprise.py"),
            f"{DIALECTS}enterpriseops.py",
        ),
        {SCORES: ("_enterprise_groups",), CATALOGUE: ("enterpriseops.NAME",)},
    ),
    "mcp_universe": Own(
        (
            *(f"{SUITES}mcp_universe.py", f"{SUITES}listings/mcp_universe_prompts.py"),
            *("envpool/served/universe_program.py", f"{DIALECTS}mcp_universe.py"),
        ),
        {
            "src/rehearsal_room/cli/play/suites.py": ("_like_its_agent",),
            CATALOGUE: ("mcp_universe.NAME",),
        },
    ),
    "mcpmark": Own((f"{SUITES}mcpmark.py",), {CATALOGUE: ("mcpmark.NAME",)}),
}
_NOT_CODE = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
)
_BODIES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Source(NamedTuple):
    """A module: how many lines it has, which are code, and where each name is defined."""

    length: int
    code: frozenset[int]
    names: dict[str, range]


@cache
def source(path: str) -> Source:
    text = (ROOT / path).read_text(encoding="utf-8")
    tree = ast.parse(text)
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOT_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, _BODIES) and ast.get_docstring(node) is not None:
            code.difference_update(_lines(node.body[0]))
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names[name] = _lines(node)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names[name] = _lines(node)
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if key is not None:
                        names[ast.unparse(key)] = range(key.lineno, (value.end_lineno or 0) + 1)
    return Source(len(text.splitlines()), frozenset(code), names)


def _lines(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def size_of(suite: str) -> tuple[int, int]:
    """Lines of code, and all lines."""
    own = OWN[suite]
    code = sum(len(source(path).code) for path in own.modules)
    lines = sum(source(path).length for path in own.modules)
    for parts, sign in ((own.parts, 1), (own.without, -1)):
        for path, names in parts.items():
            for name in names:
                where = source(path).names[name]
                code += sign * len(source(path).code.intersection(where))
                lines += sign * len(where)
    return code, lines


@pytest.mark.parametrize("suite", OWN)
def test_a_suite_has_little_code(suite: str) -> None:
    """At most 600 lines of code; two suites play all that another one plays, and more."""
    code, _ = size_of(suite)
    assert MOST // 10 < code <= MORE.get(suite, MOST)
    assert (code > MOST) == (suite in MORE)


def test_every_module_is_counted() -> None:
    """A module of a suite's folders belongs to a suite, or is one that suites share."""
    found = {
        f"{folder}{path.name}"
        for folder in FOLDERS
        for path in (ROOT / folder).glob("*.py")
        if path.name != "__init__.py"
    }
    counted = {path for own in OWN.values() for path in own.modules}
    assert found == (counted | SHARED) - {"envpool/served/universe_program.py"}
    assert not counted & SHARED


if __name__ == "__main__":
    for name in OWN:
        sys.stdout.write("{}: {} lines of code, {} lines\n".format(name, *size_of(name)))
