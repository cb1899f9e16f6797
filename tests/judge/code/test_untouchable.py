"""The guards of records that no call may write, and of effects that no call takes back."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.core.events import Label
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.code.runners import InProcessRunner
from rehearsal_room.scenarios.format import NeverTouch, read
from tests.support.mini_world import episode
from tests.support.paths import LIBRARY

RULE = "A blocked member's record is not changed."
BLOCKED = NeverTouch(RULE, "members", {"status": ("blocked",)})
OF_NAMES = msgspec.structs.replace(BLOCKED, columns=("name",))
OF_DELETION = msgspec.structs.replace(BLOCKED, writes=("delete",))
FREE = ("set_status", {"member_id": 4, "status": "active"})
BLOCK = ("set_status", {"member_id": 4, "status": "blocked"})
AWAY = ("set_status", {"member_id": 1, "status": "left"})
BACK = ("set_status", {"member_id": 1, "status": "active"})


@pytest.fixture(scope="module")
def world() -> HostedScenario:
    """The mini world, in which member 4 is blocked and member 1 is not."""
    return HostedScenario(read(LIBRARY))


@pytest.mark.parametrize(
    ("listed", "calls", "broken"),
    [
        ({}, [FREE, BLOCK], None),
        ({"never_touch": (BLOCKED,)}, [FREE, BLOCK], ("members never touched", RULE)),
        ({"never_touch": (BLOCKED,)}, [AWAY, BACK], None),
        ({"never_touch": (OF_NAMES,)}, [FREE, BLOCK], None),
        ({"never_touch": (OF_DELETION,)}, [FREE, BLOCK], None),
        ({"irreversible": ("members",)}, [AWAY, BACK], ("members not taken back", "left the")),
        ({"irreversible": ("loans",)}, [AWAY, BACK], None),
    ],
)
def test_what_was_written_back_counts_where_it_is_listed(
    world: HostedScenario,
    listed: dict[str, Any],
    calls: Sequence[tuple[str, dict[str, Any]]],
    broken: tuple[str, str] | None,
) -> None:
    """The rows at the end are the same in all cases; only the log shows the writes. What is not
    listed may be put right."""
    scenario = msgspec.structs.replace(world.scenario, **listed)
    judge = CodeJudge(scenario, InProcessRunner(world))
    task = scenario.task("pay-fine")
    made = [*((call.name, call.arguments) for call in task.oracle), *calls]
    judged = judge.verdict_at_once(episode(world, task.id, made, task.answer))
    failed = [one for one in judged.findings if not one.passed]
    if broken is None:
        assert (judged.label, failed) == (Label.COMPLETED, [])
    else:
        assert judged.label is Label.AGENT_ERROR
        assert [(one.name, one.kind) for one in failed] == [(broken[0], "guard")]
        assert broken[1] in failed[0].expected
