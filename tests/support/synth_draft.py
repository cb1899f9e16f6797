"""A small draft of a synthesis, for tests."""

from rehearsal_room.scenarios.format import AwmSample, AwmTable, Call
from rehearsal_room.scenarios.synth.core.world_drafts import (
    ProvenTask,
    ScenarioIdea,
    TaskDraft,
    TaskPlan,
    UserDraft,
    WorldDraft,
)


def world_draft() -> WorldDraft:
    """A world with one table, one row and one proved task."""
    verifier = (
        "from scenarios.api import State\nfrom scenarios.checks import Check, Finding\n\n"
        "def say_it(before: State, after: State, answer: str) -> list[Finding]:\n    return []\n"
    )
    task = TaskDraft("say-it", "question", "Say it, please.")
    return WorldDraft(
        ScenarioIdea("Say It!", "A place  where\nthings are said."),
        TaskPlan(UserDraft("Noor Haddad", "desk"), "- Be brief.", (task,)),
        (AwmTable("t", "CREATE TABLE t (id INTEGER PRIMARY KEY)", ("CREATE INDEX i ON t (id)",)),),
        (AwmSample("t", ("INSERT INTO t (id) VALUES (1)",)),),
        proven=(ProvenTask(task, verifier, (Call("list_tables"),), "It.", "simple", 1, 1),),
    )
