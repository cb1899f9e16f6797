"""Profile `awm-release` as settings: what it sets, and what it refuses."""

from typing import Any

import msgspec
import pytest

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.run import Settings, resolve_table

FLAGS: dict[str, Any] = {
    "profile": "awm-release",
    "awm_code": "/code",
    "judge_models": ("j",),
    "policy": "openai",
    "model": "m",
    "base_url": "http://127.0.0.1:8000/v1",
}


def resolved(**flags: Any) -> Settings:
    return resolve_table({}, FLAGS | flags)


def test_it_sets_what_the_released_agent_has() -> None:
    """Limits, sampling and rules; our own judge stays code."""
    found = resolved()
    assert (found.dialect, found.history, found.format.rules) == ("awm-release", "full", "off")
    assert (found.limits.max_steps, found.limits.world_stop) == (30, False)
    assert (found.model.temperature, found.model.max_tokens) == (1.0, 2048)
    assert found.model.adapt == ("max_completion_tokens", "without:seed")
    assert (found.model.extra_body, found.judge.mode) == ("", "code")


def test_a_local_server_gets_fields_of_vllm() -> None:
    """And results in role `tool`, as the released agent decides by the URL."""
    found = resolved(base_url="http://localhost:8000/v1")
    assert found.dialect == "awm-release-tool"
    assert found.model.extra_fields == {
        "add_generation_prompt": True,
        "min_tokens": 16,
        "chat_template_kwargs": {"enable_thinking": True},
    }


def test_settings_that_were_saved_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolved again they are the same, whatever the environment names by then."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    found = resolve_table({}, {key: value for key, value in FLAGS.items() if key != "base_url"})
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert found.dialect == "awm-release-tool"
    assert resolve_table(msgspec.to_builtins(found), {}) == found


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"dialect": "hermes"}, "dialect: profile 'awm-release' has one of its own, not 'hermes'"),
        ({"dialect": "native"}, "dialect: profile 'awm-release' has one of its own, not 'native'"),
        ({"max_steps": 20}, "max_steps: profile 'awm-release' has 30, not 20"),
        ({"temperature": 0.6}, "temperature: profile 'awm-release' has 1.0, not 0.6"),
        ({"world_stop": True}, "world_stop: profile 'awm-release' has no, not yes"),
        ({"format_rules": "awm"}, "format_rules: profile 'awm-release' has off, not awm"),
        ({"history": "last:3"}, "history: profile 'awm-release' has full, not last:3"),
        ({"seeding": "openenv"}, "seeding: profile 'awm-release' has awm, not openenv"),
        ({"token_limit": 9}, "token_limit: profile 'awm-release' has none, not 9"),
        ({"top_p": 0.9}, "top_p: profile 'awm-release' has none, not 0.9"),
        (
            {"judge_temperature": 0.0},
            "judge_temperature: judge 'code' does not ask models; choose --judge llm or --judge "
            "hybrid",
        ),
        (
            {"agent": "a:b"},
            "agent: profile 'awm-release' has an agent of its own; leave --agent out",
        ),
        (
            {"policy": "vllm"},
            "policy: profile 'awm-release' has a chat API (-p openai), not policy 'vllm'",
        ),
        (
            {"extra_body": '{"top_k": 20}'},
            "extra_body: profile 'awm-release' has fields of its own; leave --extra-body out",
        ),
        (
            {"judge_models": ()},
            "judge_models: profile 'awm-release' asks one judge's model, and 0 are named: name a "
            "model with --judge-model",
        ),
        (
            {"judge_models": ("a", "b")},
            "judge_models: profile 'awm-release' asks one judge's model, and 2 are named: name a "
            "model with --judge-model",
        ),
        (
            {"judge": "none"},
            "profile: profile 'awm-release' stands beside judge 'code' or 'hybrid', not 'none'",
        ),
        (
            {"awm_code": ""},
            "awm_code: profile 'awm-release' reads its prompts from a checkout of "
            "github.com/Snowflake-Labs/agent-world-model: --awm-code DIR",
        ),
        (
            {"profile": "none", "judge_models": (), "dialect": "awm-release"},
            "dialect: 'awm-release' is a part of a profile: --profile awm-release",
        ),
    ],
)
def test_what_does_not_go_with_it_is_one_sentence(flags: dict[str, Any], sentence: str) -> None:
    """Its score would not be the authors'."""
    with pytest.raises(SettingsError) as caught:
        resolved(**flags)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"model": {"adapt": 7}}, "model.adapt: expected a list, found 7"),
        ({"base_url": 7, "dialect": "awm-release"}, "base_url: expected a text, found 7"),
    ],
)
def test_a_value_of_another_type_is_named(table: dict[str, Any], sentence: str) -> None:
    """As in a file without a profile."""
    flags = {key: value for key, value in FLAGS.items() if key not in table}
    with pytest.raises(SettingsError) as caught:
        resolve_table(table, flags)
    assert str(caught.value) == sentence


def test_a_checkout_without_a_profile_is_refused() -> None:
    """Otherwise a run would seem to have the score that it lacks."""
    with pytest.raises(SettingsError, match="awm_code: is for a profile: add --profile awm-rel"):
        resolve_table({}, {"awm_code": "checkout"})
