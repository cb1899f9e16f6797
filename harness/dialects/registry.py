"""Dialects by name."""

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.dialects.agentdojo import AgentDojo
from rehearsal_room.harness.dialects.awm import Awm
from rehearsal_room.harness.dialects.awm_release import AwmRelease
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.bfcl import Bfcl
from rehearsal_room.harness.dialects.enterpriseops import EnterpriseOps
from rehearsal_room.harness.dialects.hermes import Hermes
from rehearsal_room.harness.dialects.mcp_universe import PREFIX, McpUniverse
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.dialects.tau2 import Tau2
from rehearsal_room.harness.dialects.toolsandbox import ToolSandbox
from rehearsal_room.harness.dialects.verbatim import Verbatim
from rehearsal_room.harness.dialects.vita import Vita

NAMES = ("native", "hermes", "awm", "awm-tool", "tau2")


def dialect_of(name: str, *, lenient: bool = True) -> Dialect:
    """The dialect of a name, as in a setting or in a log.

    With `lenient` off, AWM's protocol is read strictly, as its format rules require. It changes how
    replies are read, never how a history is rendered. Raises SettingsError.
    """
    if name == "native":
        return Native()
    if name == "hermes":
        return Hermes()
    if name in ("awm", "awm-tool"):
        return Awm(results="tool" if name == "awm-tool" else "user", lenient=lenient)
    if name in (
        "awm-release",
        "awm-release-tool",
    ):
        return AwmRelease(results="tool" if name == "awm-release-tool" else "user")
    if name == "bfcl":  # like awm-release and tau2 it keeps another's promises
        return Bfcl()
    if name == "agentdojo":
        return AgentDojo()
    if name == "enterpriseops":
        return EnterpriseOps()
    if name == "tau2":
        return Tau2()
    if name == "vita":
        return Vita()
    if name == "toolsandbox":
        return ToolSandbox()
    if name.startswith(PREFIX):
        if not (number := name.removeprefix(PREFIX)).isdecimal():
            raise SettingsError("dialect: 'mcp_universe' says how many steps are left: --max-steps")
        return McpUniverse(int(number))
    if name == "verbatim":  # of imported logs; no run is played in it
        return Verbatim()
    raise SettingsError(
        f"dialect: there is no dialect {name!r} (expected one of {', '.join(NAMES)})"
    )
