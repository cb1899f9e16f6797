"""The MCP servers of a run as its flags name them."""

import pytest

from rehearsal_room.envpool.sources.base import McpTarget
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.mcp import header_variables, mcp_targets, variable_names
from rehearsal_room.harness.settings.run import resolve_table
from rehearsal_room.harness.settings.worlds import WorldSettings
from rehearsal_room.scenarios.errors import ScenarioError

NOTES, SHOP = "https://notes.example/mcp", "https://shop.example/mcp?a=b"


def test_each_server_gets_what_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers, variables and tokens by the server's name; what names no server goes to the only URL
    or to every command, and a token for one URL to no other."""
    for name in ("KEY", "REHEARSE_TOKEN", "REHEARSE_TOKEN_MY_NOTES"):
        monkeypatch.setenv(name, f"value of {name}")
    worlds = WorldSettings(
        mcp=(f"my-notes={NOTES}", SHOP, "run --a=b", "db=run2"),
        mcp_header=("my-notes:X-Api-Key=KEY",),
        mcp_env=("HOME", "db:PGPASSWORD"),
    )
    key = (("X-Api-Key", "value of KEY"),)
    both = ("HOME", "PGPASSWORD")
    assert mcp_targets(worlds) == (
        McpTarget(NOTES, "my-notes", key, ("HOME",), "value of REHEARSE_TOKEN_MY_NOTES"),
        McpTarget(SHOP, environment=("HOME",)),
        McpTarget("run --a=b", environment=("HOME",)),
        McpTarget("run2", "db", environment=both),
    )
    assert (variable_names(worlds), header_variables(worlds)) == (both, ("KEY",))
    alone = WorldSettings(mcp=SHOP, mcp_header=("X-Api-Key=KEY",))  # as older runs wrote it
    assert mcp_targets(alone) == (McpTarget(SHOP, "", key, (), "value of REHEARSE_TOKEN"),)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"mcp": ["a=x", "a=y"]}, "mcp: two servers are named 'a'"),
        ({"mcp": ["npx @x/y", "https://u:p@h/mcp"]}, "mcp: the URL contains a user name"),
        ({"mcp": ["x"], "mcp_header": ["K=V"]}, "headers are for the URL of --mcp"),
        ({"mcp": [SHOP], "mcp_header": ["K"]}, "expected NAME=VARIABLE"),
        ({"mcp": [SHOP], "mcp_header": ["a:K=V"]}, "no URL of --mcp is named 'a'"),
        ({"mcp": [SHOP, f"n={NOTES}"], "mcp_header": ["K=V"]}, "say whose header 'K=V' is"),
        ({"mcp": ["x"], "mcp_env": ["a:K"]}, "no server of --mcp is named 'a'"),
        ({"mcp_env": ["K"]}, "variables are for the command of --mcp"),
        ({"mcp_ask": "user"}, "mcp_ask: this is for the server of --mcp"),
        ({"mcp": ["x"], "mcp_ask": "model"}, "policy 'oracle' asks no model"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(given: dict[str, object], why: str) -> None:
    """Before anything is started."""
    with pytest.raises(SettingsError, match=why):
        resolve_table(given, {})


def test_a_header_whose_variable_is_not_set_is_refused() -> None:
    """The value never stands in the settings."""
    worlds = WorldSettings(mcp=(SHOP,), mcp_header=("X-Api-Key=NO_SUCH_VARIABLE",))
    with pytest.raises(ScenarioError, match="'NO_SUCH_VARIABLE' is not set"):
        mcp_targets(worlds)
