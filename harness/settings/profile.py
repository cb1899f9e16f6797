"""What a profile sets: those settings of a run that make it another project's.

Profile `awm-release` is the agent of Agent World Model's released code (awm/core/agent.py at
91a9578). Where its URL is that of a local server, it sends results in role `tool`, and fields of
vLLM.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.tables import SettingsTable, merge

AWM_RELEASE = "awm-release"
_DIALECTS = (AWM_RELEASE, f"{AWM_RELEASE}-tool")
_FIXED: Mapping[str, Any] = {
    "history": "full",
    "format": {"rules": "off"},
    "limits": {"max_steps": 30, "world_stop": False, "call_timeout": 60.0},
    "model": {"temperature": 1.0, "max_tokens": 2048, "stream": False},
    "worlds": {"seeding": "awm"},
}
_LOCAL_FIELDS = (
    '{"add_generation_prompt":true,"min_tokens":16,"chat_template_kwargs":{"enable_thinking":true}}'
)
_ADAPT = ("max_completion_tokens", "without:seed")
# Settings that the released agent has not.
_NONE = (
    *(("limits", name) for name in ("token_limit", "time_limit", "max_errors", "max_messages")),
    *(("limits", "turn_steps"), ("model", "top_p")),
)


def with_profile(table: SettingsTable) -> SettingsTable:
    """A nested table of settings with what its profile sets. Raises SettingsError where the table
    has another value for it."""
    dialect = table.get("dialect")
    if _at(table, "judge", "profile") != AWM_RELEASE:
        if dialect in _DIALECTS:
            raise SettingsError(
                f"dialect: {dialect!r} is a part of a profile: --profile {AWM_RELEASE}"
            )
        if _at(table, "judge", "awm_code"):
            raise SettingsError(f"awm_code: is for a profile: add --profile {AWM_RELEASE}")
        return table
    if dialect not in (None, *_DIALECTS):
        raise SettingsError(_differs("dialect", f"one of its own, not {dialect!r}"))
    _check_player(table)
    _check_values(table)
    url = str(_at(table, "model", "base_url") or os.environ.get("OPENAI_BASE_URL", ""))
    is_local = dialect == _DIALECTS[1] if dialect else "localhost" in url and "v1" in url
    words = _at(table, "model", "adapt") or ()
    if isinstance(words, list | tuple):  # else it is refused later
        words = (*words, *(word for word in _ADAPT if word not in words))
    return merge(
        table,
        {
            **_FIXED,
            "dialect": _DIALECTS[is_local],
            "judge": _absolute(table["judge"]),
            "model": {
                **_FIXED["model"],
                "adapt": words,
                "extra_body": _LOCAL_FIELDS if is_local else "",
            },
        },
    )


def _check_values(table: SettingsTable) -> None:
    """Refuse values that the released agent has not. Raises SettingsError."""
    for key, wanted in _FIXED.items():
        for name, value in wanted.items() if isinstance(wanted, Mapping) else [("", wanted)]:
            found = _at(table, key, name) if name else table.get(key)
            if found is not None and found != value:
                named = f"format_{name}" if key == "format" else name or key
                raise SettingsError(_differs(named, f"{_word(value)}, not {_word(found)}"))
    for key, name in _NONE:
        if (found := _at(table, key, name)) is not None:
            raise SettingsError(_differs(name, f"none, not {found}"))


def _absolute(judge: Mapping[str, Any]) -> Mapping[str, Any]:
    """The judge's settings, with the folder of the code as every other process finds it."""
    folder = judge.get("awm_code")
    if not isinstance(folder, str) or not folder:
        return judge
    return {**judge, "awm_code": str(Path(folder).absolute())}


def _check_player(table: SettingsTable) -> None:
    """Refuse who does not play as the released agent does. Raises SettingsError."""
    policy = _at(table, "policy", "name")
    if _at(table, "agent", "target"):
        raise SettingsError(_differs("agent", "an agent of its own; leave --agent out"))
    if policy in ("vllm", "local"):
        raise SettingsError(_differs("policy", f"a chat API (-p openai), not policy {policy!r}"))
    fields = _at(table, "model", "extra_body")
    if fields and fields != _LOCAL_FIELDS:
        raise SettingsError(_differs("extra_body", "fields of its own; leave --extra-body out"))


def _differs(key: str, what: str) -> str:
    return f"{key}: profile {AWM_RELEASE!r} has {what}"


def _word(value: Any) -> str:
    return {False: "no", True: "yes"}[value] if isinstance(value, bool) else str(value)


def _at(table: SettingsTable, name: str, key: str) -> Any:
    inner = table.get(name)
    return inner.get(key) if isinstance(inner, Mapping) else None
