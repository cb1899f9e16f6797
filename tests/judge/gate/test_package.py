"""The quality gate on worlds with one injected fault each."""

import re
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from rehearsal_room.judge.gate.core.report import (
    GateFailure,
    MutantNote,
    WorldGateReport,
    merge_reports,
    render,
)
from rehearsal_room.judge.gate.core.task_runner import GateSettings
from rehearsal_room.judge.gate.package import check_scenario, main
from rehearsal_room.scenarios.errors import UnknownScenario
from rehearsal_room.scenarios.format import difficulty_of, read
from tests.support.mini_world import variant
from tests.support.paths import LIBRARY

FAST = GateSettings(probes=15)


def checked(folder: Path) -> WorldGateReport:
    """The gate's report on a variant."""
    return check_scenario(folder, FAST)


def the_failure(report: WorldGateReport) -> GateFailure:
    """The one failure of a report."""
    assert len(report.failures) == 1, report.failures
    return report.failures[0]


def test_a_sound_world_passes() -> None:
    """Nothing fails; everything is counted; every tool was reached, called by an oracle or not."""
    report = check_scenario(LIBRARY)
    assert report.ok
    assert report.failures == ()
    assert (report.worlds, report.tasks, report.tools) == (1, 6, 10)
    assert report.mutants > 50
    assert report.mutants_caught == report.mutants
    assert report.probes > 300
    assert (report.names, report.unreached, report.survivors) == (("library",), (), ())


def test_the_gate_is_deterministic() -> None:
    """The same package and seed give the same report."""
    assert check_scenario(LIBRARY, FAST) == check_scenario(read(LIBRARY), FAST)


def test_a_mutant_with_the_oracles_end_is_equivalent() -> None:
    """Paying twice is refused, so it ends as the oracle does; it is listed, but not counted."""
    notes = [note for note in check_scenario(LIBRARY, FAST).equivalents if note.task == "pay-fine"]
    assert notes == [
        MutantNote(
            "library",
            "pay-fine",
            "repeated",
            "call 2 pay_fine(member_id=2, amount_cents=350, method='card') once more as call 3",
            "it ends in the oracle's state with the oracle's answer: Member 2 owes 0 cents only.",
        )
    ]


def test_a_package_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file is a failure of `package`, and the only one."""
    folder = variant(tmp_path)
    (folder / "policy.md").unlink()
    report = checked(folder)
    why = f"{folder}/policy.md: the file is missing"
    assert report == WorldGateReport(
        worlds=1, names=("library",), failures=(GateFailure("library", "", "package", why),)
    )


MISS = """
[[near_miss]]
task = "pay-fine"
why = "books half of the fine"
label = "agent_error"
calls = [
  { name = "pay_fine", arguments = { member_id = 2, amount_cents = 175, method = "card" } },
]
answer = "Paid 1.75 by card."
"""


def test_near_misses_are_played_and_counted(tmp_path: Path) -> None:
    """A wrong turn that gets the label that its author expects is counted and is not a failure."""
    folder = variant(tmp_path)
    (folder / "near_misses.toml").write_text(MISS)
    report = checked(folder)
    assert (report.failures, report.near_misses) == ((), 1)


NEAR_MISS_FAULTS = {  # fault: (a text of MISS, the text instead, check, a part of the sentence)
    "another label": (
        *("agent_error", "partially_completed", "near_miss"),
        "books half of the fine: expected partially_completed, got agent_error; failed findings: ",
    ),
    "no mistake": (
        *("175", "350", "near_miss"),
        "books half of the fine: expected agent_error, got completed; failed findings: none",
    ),
    "unknown tool": ('"pay_fine"', '"pay"', "near_miss", "fails (unknown_tool)"),
    "arguments": ("175", '"half"', "near_miss", "fails (arguments)"),
    "unknown task": ('"pay-fine"', '"pay-fines"', "package", "did you mean 'pay-fine'?"),
}


@pytest.mark.parametrize("fault", NEAR_MISS_FAULTS)
def test_faults_of_a_near_miss(fault: str, tmp_path: Path) -> None:
    """A near miss with another label than expected, or with a call that fits no tool, fails."""
    old, new, check, sentence = NEAR_MISS_FAULTS[fault]
    folder = variant(tmp_path)
    (folder / "near_misses.toml").write_text(MISS.replace(old, new).replace("1.75", "3.50"))
    failure = the_failure(checked(folder))
    assert failure.check == check
    assert sentence in failure.why


def test_an_unknown_world_is_the_callers_mistake() -> None:
    """A name that does not exist is not a defect of a world."""
    with pytest.raises(UnknownScenario, match="scenario 'nowhere' not found"):
        check_scenario("nowhere")


# Faults that are found before a task is played: file, text, its replacement, the check, the
# sentence.
EARLY = {
    "seed": (
        "data",
        "(2, 'Anna Soll'",
        "(1, 'Anna Soll'",
        "seed",
        "UNIQUE constraint failed: members.id",
    ),
    "orphan": ("data", "(304, 5,", "(304, 6,", "seed", "FOREIGN KEY|references a row of members"),
    "tools": ("tools", "(db: Db, name: str)", "(db: Db, name)", "tools", "find_member.*'name'"),
    "no_verifier": ("verify", "def blocked(", "def _b(", "verifier", "task 'blocked'"),
    "verify_file": ("verify", "import Check", "import Chk", "verifier", "ImportError"),
}


@pytest.mark.parametrize("fault", EARLY)
def test_faults_before_the_first_task(fault: str, tmp_path: Path) -> None:
    """A world that cannot be hosted or judged has one failure that names the file."""
    file, old, new, check, why = EARLY[fault]
    failure = the_failure(checked(variant(tmp_path, **{file: (old, new)})))
    assert (failure.world, failure.task, failure.check) == ("library", "", check)
    assert re.search(why, failure.why), failure.why


# Faults of one task: file, text, its replacement, the task, the check, words of the sentence.
FAULTS = {
    "noop": (
        "verify",
        '    check.answer_has("302")\n    check.answer_has("11")\n',
        "",
        "overdue",
        "noop",
        "doing nothing and saying nothing completes it",
    ),
    "claim": (
        "verify",
        '    check.updated("loans", 303, due_on="2026-04-01")\n    check.nothing_else()',
        '    check.answer_has("2026-04-01")',
        "renew-emma",
        "noop",
        "saying that it is done, without doing it, completes it",
    ),
    "refused": (
        "tasks",
        "loan_id = 301",
        "loan_id = 304",
        "return-dune",
        "oracle",
        "call 2, return_book(loan_id=304), fails (refused): Loan 304 was returned",
    ),
    "incomplete": (
        "tasks",
        "days = 10 }",
        "days = 11 }",
        "renew-emma",
        "oracle",
        "judged agent_error: loans 303 updated: expected due_on='2026-04-01', "
        "found due_on='2026-04-02'",
    ),
    "answer": (
        "tasks",
        '"Loan 301 (Dune) is booked in."',
        '"Dune is booked in."',
        "return-dune",
        "oracle",
        "judged partially_completed: answer says '301'",
    ),
    "difficulty": (
        "tasks",
        'id = "renew-emma"\ninstruction = "Anna Soll wants Emma for ten more days."\n'
        'difficulty = "medium"',
        'id = "renew-emma"\ninstruction = "Anna Soll wants Emma for ten more days."\n'
        'difficulty = "hard"',
        "renew-emma",
        "difficulty",
        "declared hard, but 3 calls and 1 changed tables are 4 points, which is medium",
    ),
    "kind": (
        "tasks",
        'kind = "decline"',
        'kind = "change"',
        "blocked",
        "kind",
        "a task of kind 'change', but its oracle changes no row",
    ),
    "raises": (
        "verify",
        '    check.updated("members", 2, fine_cents=0, paid_by="card")',
        '    assert after.changes\n    check.updated("members", 2, fine_cents=0, paid_by="card")',
        "pay-fine",
        "verifier",
        "after doing nothing: verifier 'pay_fine' of scenario 'library' raised AssertionError",
    ),
    "writes": (
        "verify",
        '    check.untouched("members", 1)',
        '    after.all("UPDATE members SET fine_cents = 0 RETURNING id")',
        "pay-fine",
        "verifier",
        "raised ReadOnlyError",
    ),
    "modifies": (
        "verify",
        '    check.untouched("members", 1)',
        "    for change in after.changes:\n        change.after['status'] = 'left'",
        "pay-fine",
        "verifier",
        "it modifies the changes that it is given",
    ),
    "stateful": (
        "verify",
        '    check.untouched("members", 1)',
        '    asked = pay_fine.__dict__.setdefault("asked", [])\n'
        "    asked.append(1)\n"
        '    check.goal("asked", True, "", str(len(asked)))',
        "pay-fine",
        "verifier",
        "it gives other findings when it runs again",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_a_task(fault: str, tmp_path: Path) -> None:
    """An injected fault is reported with its task, its check, and a sentence."""
    file, old, new, task, check, words = FAULTS[fault]
    report = checked(variant(tmp_path, **{file: (old, new)}))
    found = [(failure.task, failure.check) for failure in report.failures]
    assert (task, check) in found
    assert {name for name, _ in found} == {task}
    assert any(f.check == check and words in f.why for f in report.failures), report.failures


def test_mutants_that_a_verifier_accepts(tmp_path: Path) -> None:
    """They are named with their mistake and with what the verifier did not check."""
    edit = (
        '"members", 2, fine_cents=0, paid_by="card"',
        '"members", 2, fine_cents=ANY, paid_by=ANY',
    )
    folder = variant(tmp_path, verify=edit)
    path = folder / "verify.py"
    path.write_text(path.read_text().replace("import Check", "import ANY, Check"))
    report = checked(folder)
    assert [(note.kind, note.mutation, note.why) for note in report.survivors] == [
        (
            "changed",
            "call 2 pay_fine: amount_cents 350 becomes 349",
            "members 2 has fine_cents=1 where the oracle has 0",
        ),
        (
            "changed",
            "call 2 pay_fine: method 'card' becomes 'cash'",
            "members 2 has paid_by='cash' where the oracle has 'card'",
        ),
    ]
    assert report.mutants_caught == report.mutants - 2
    assert the_failure(report) == GateFailure(
        "library",
        "pay-fine",
        "mutants",
        "2 mutants are completed, as this: call 2 pay_fine: amount_cents 350 becomes 349; "
        "members 2 has fine_cents=1 where the oracle has 0",
    )


# Dependent faults: file, text, its replacement, the task and others, the sentence.
ONE_CAUSE = {
    "tool misspelt in an oracle": (
        "tasks",
        'name = "renew_loan"',
        'name = "renew_lone"',
        ("renew-emma",),
        "it calls 'renew_lone', but there is no such tool; did you mean 'renew_loan'?",
    ),
    "tool misspelt in tools.py": (
        "tools",
        "def find_member(",
        "def find_membre(",
        ("pay-fine", "lend-two", "renew-emma", "blocked"),
        "it calls 'find_member', but there is no such tool; did you mean 'find_membre'?",
    ),
    "look-up that fails": (
        "tasks",
        '    { name = "list_loans", arguments = { member_id = 2 } },\n',
        '    { name = "list_loans", arguments = { member_id = 9 } },\n',
        ("renew-emma",),
        "call 2, list_loans(member_id=9), fails (refused): There is no member 9.",
    ),
}


@pytest.mark.parametrize("fault", ONE_CAUSE)
def test_one_cause_is_one_fault(fault: str, tmp_path: Path) -> None:
    """Faults that follow from a failing call are not repeated: neither later calls and keys, nor
    the verdict, kind and difficulty of its task, nor other tasks that call the same missing
    tool."""
    file, old, new, tasks, why = ONE_CAUSE[fault]
    failure = the_failure(checked(variant(tmp_path, **{file: (old, new)})))
    assert (failure.tasks, failure.check, failure.why) == (tasks, "oracle", why)


def test_other_tasks_of_a_fault_are_counted(tmp_path: Path) -> None:
    """A fault of several tasks is one line for people, and names all of them in JSON."""
    report = checked(variant(tmp_path, tools=("def find_member(", "def find_membre(")))
    console = Console(width=100)
    with console.capture() as capture:
        render([report], report, console)
    assert "oracle library/pay-fine and 3 other tasks: it calls 'find_member'" in capture.get()
    [failure] = msgspec.json.decode(msgspec.json.encode(report))["failures"]
    assert failure["other_tasks"] == ["lend-two", "renew-emma", "blocked"]


def test_a_few_survivors_are_listed_and_pass(tmp_path: Path) -> None:
    """Up to two in a hundred mutants may survive; they are listed, but not failures."""
    due = 'after.value("SELECT due_on FROM loans WHERE id = 303")'
    lax = (
        'check.updated("loans", 303, due_on="2026-04-01")',
        f'check.updated("loans", 303, due_on=max("2026-04-01", min("2026-04-02", {due})))',
    )
    report = checked(variant(tmp_path, verify=lax))
    assert report.mutants_caught == report.mutants - 1
    assert report.mutants_caught >= 0.98 * report.mutants
    assert report.ok
    assert [(note.task, note.kind) for note in report.survivors] == [("renew-emma", "changed")]


def test_a_tool_that_breaks(tmp_path: Path) -> None:
    """A tool that no oracle calls is probed; the arguments that broke it are reported."""
    old = '    _member(db, member_id)\n    db.run("UPDATE members SET status'
    folder = variant(tmp_path, tools=(old, f"    {{'active': 1, 'left': 2}}[status]\n{old}"))
    failure = the_failure(checked(folder))
    assert (failure.task, failure.check) == ("", "tool")
    assert failure.why.startswith("set_status(member_id=")
    assert failure.why.endswith(
        "status='blocked') breaks it: set_status failed with an internal error: KeyError: 'blocked'"
    )


def test_a_tool_that_breaks_on_missing_rows(tmp_path: Path) -> None:
    """Probes also pass keys of rows that do not exist."""
    old = '    if member is None:\n        raise ToolError(f"There is no member {member_id}.")\n'
    report = checked(variant(tmp_path, tools=(old, "    assert member\n")))
    assert {failure.check for failure in report.failures} == {"tool"}
    broken = {failure.why.partition("(")[0] for failure in report.failures}
    assert broken >= {"get_member", "set_status"}


def test_a_verifier_that_breaks_on_other_states(tmp_path: Path) -> None:
    """States that no mistake of the oracle reaches are tried too."""
    old = '    check.answer_has("302")'
    new = '    assert all(c.table != "members" for c in after.changes)\n' + old
    report = checked(variant(tmp_path, verify=(old, new)))
    assert {(failure.task, failure.check) for failure in report.failures} == {
        ("overdue", "verifier")
    }


def test_a_tool_out_of_reach(tmp_path: Path) -> None:
    """A tool that refuses every call is listed as unreached."""
    old = "    _member(db, member_id)\n    db.run("
    new = '    raise ToolError("Never.")\n    db.run('
    report = checked(variant(tmp_path, tools=(old, new)))
    assert report.ok
    assert report.unreached == ("library.set_status",)


CLOCKS = {
    "wall clock": ('"time": time.time_ns()', "import time\n", "tools.py line 3: time differs"),
    "hidden clock": ('"time": __import__("time").time_ns()', "", None),
    "memory": (
        '"time": next(_count)',
        "import itertools\n_count = itertools.count()\n",
        None,
    ),
    "today": (
        '"time": str(datetime.now().date())',
        "from datetime import datetime\n",
        "datetime.now differs from one episode to the next",
    ),
}


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_world_that_is_not_deterministic(clock: str, tmp_path: Path) -> None:
    """Time, randomness and state between episodes make two leases differ."""
    value, imports, sentence = CLOCKS[clock]
    folder = variant(
        tmp_path,
        tools=(
            '{"loan_id": loan_id, "returned_on"',
            f'{{{value}, "loan_id": loan_id, "returned_on"',
        ),
    )
    path = folder / "tools.py"
    text = path.read_text().replace("from typing", f"{imports}from typing", 1)
    path.write_text(text)
    report = checked(folder)
    assert {failure.check for failure in report.failures} == {"determinism"}
    if sentence is not None:
        assert any(sentence in failure.why for failure in report.failures)
    if clock != "today":  # two calls on one day agree
        played = [failure for failure in report.failures if failure.task == "return-dune"]
        assert played[0].why.startswith("on another lease call 2, return_book(loan_id=301), gives")


def test_the_number_of_mutants_can_be_bounded() -> None:
    """Beyond the bound a sample is tried, and the rest is counted."""
    report = check_scenario(LIBRARY, GateSettings(probes=1, max_mutants=4))
    assert report.mutants + report.equivalent == 6 * 4
    assert report.mutants_left_out == 43


@pytest.mark.parametrize(
    ("points", "word"), [(1, "simple"), (3, "simple"), (4, "medium"), (7, "medium"), (8, "hard")]
)
def test_difficulty_is_measured(points: int, word: str) -> None:
    """Up to three points are simple, from eight on hard."""
    assert difficulty_of(points) == word


def test_reports_add_up(tmp_path: Path) -> None:
    """Several worlds give one report, and a table with a row for each."""
    good = check_scenario(LIBRARY, FAST)
    folder = variant(tmp_path, tasks=('kind = "decline"', 'kind = "change"'))
    bad = checked(folder)
    total = merge_reports([good, bad])
    assert (total.worlds, total.tasks, total.tools) == (2, 12, 20)
    assert total.mutants == good.mutants + bad.mutants
    assert total.failures == bad.failures
    assert not total.ok
    console = Console(width=100)
    with console.capture() as capture:
        render([good, bad], total, console)
    text = capture.get()
    assert text.count("library ") == 2
    assert "kind library/blocked: a task of kind 'change', but its oracle changes no row" in text


def test_the_module_writes_json(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Exit status 0 for a sound world, 1 for a defect, 2 for an unknown world."""
    assert main([str(LIBRARY)]) == 0
    written = msgspec.json.decode(capsysbinary.readouterr().out)
    contract = ("worlds", "tasks", "tools", "failures", "mutants", "mutants_caught")
    assert [written[field] for field in contract[:4]] == [1, 6, 10, []]
    assert written["mutants"] == written["mutants_caught"]
    folder = variant(tmp_path, tasks=('kind = "decline"', 'kind = "change"'))
    assert main([str(folder)]) == 1
    written = msgspec.json.decode(capsysbinary.readouterr().out)
    fields = {field for failure in written["failures"] for field in failure}
    assert fields == {"world", "task", "check", "why"}
    assert main(["nowhere"]) == 2
    assert b"scenario 'nowhere' not found" in capsysbinary.readouterr().err


# Texts and code ---------------------------------------------------------------------------------

EMMA = "Anna Soll wants Emma for ten more days."
READING = {
    "e-mail": ("tasks", EMMA, f"{EMMA} Write to a.soll@example.com.", "texts", "'a.soll@example"),
    "code": ("tasks", EMMA, f"{EMMA} It has the mark LB-7741.", "texts", "the code 'LB-7741'"),
    "number": ("tasks", EMMA, "Loan 377 shall run ten more days.", "texts", "the number '377'"),
    "name": ("tasks", EMMA, "Anna Zorn wants Emma for ten more days.", "texts", "'Zorn'"),
    "mixture": ("tasks", EMMA, "Please leave Ben Soll Emma for ten more days.", "texts", "'Ben So"),
    "quoted": (
        "tasks",
        EMMA,
        f"{EMMA} I mean “The Waves”.",
        "texts",
        "the quoted name 'The Waves'",
    ),
    "unknown key": (
        "tasks",
        '    { name = "list_loans", arguments = { member_id = 2 } },\n'
        '    { name = "renew_loan", arguments = { loan_id = 303, days = 10 } },\n',
        '    { name = "find_member", arguments = { name = "Emma" } },\n'
        '    { name = "renew_loan", arguments = { loan_id = 303, days = 10 } },\n',
        "oracle",
        "call 3, renew_loan(loan_id=303, days=10), passes loan_id=303, which is neither",
    ),
}


@pytest.mark.parametrize("fault", READING)
def test_a_task_names_things_that_exist(fault: str, tmp_path: Path) -> None:
    """Addresses, codes, numbers and names that no row has are reported, and keys of the oracle that
    the agent cannot know."""
    file, old, new, check, words = READING[fault]
    failure = the_failure(checked(variant(tmp_path, **{file: (old, new)})))
    assert (failure.task, failure.check) == ("renew-emma", check)
    assert words in failure.why


SOUND_TEXTS = (
    "Ana Sol's loan no. 301, please. It must be 15 March.",
    "On Monday Ben Roth called; lend 20 days.",
    "Tell Carla Nunes that “I am sorry” and book 20 copies in.",
    "Do not leave Ben Roth Emma. Ana Sol Ulysses has had.",
    "Loan 83 of them in, one by one.",
    "Emma by Jane Austen, or 'Ulysses', for member 3.",
)


@pytest.mark.parametrize("text", SOUND_TEXTS)
def test_texts_about_existing_things_pass(text: str, tmp_path: Path) -> None:
    """Names in the possessive, dates, counts and plain quotes cause no false alarm."""
    assert checked(variant(tmp_path, tasks=(EMMA, f"{EMMA} {text}"))).failures == ()


def test_texts_name_tools_that_exist(tmp_path: Path) -> None:
    """Names between backticks in the policy and the descriptions must exist."""
    policy = ("once.", "once: `renew_loan`, `fine_cents`, see `extend_loan`.")
    tools = ('"""One member with status', '"""One member (see `list_people`) with status')
    report = checked(variant(tmp_path, policy=policy, tools=tools))
    missing = "there is no such tool, argument or column"
    assert [(failure.check, failure.why) for failure in report.failures] == [
        ("texts", f"the policy names `extend_loan`, but {missing}"),
        ("texts", f"get_member names `list_people`, but {missing}"),
    ]


# Tools ----------------------------------------------------------------------------------------

PAY = "    fine = _member(db, member_id)"
RENEW = '    due_on = db.value("SELECT date(?, ?)", loan["due_on"], f"+{days} days")'
TOOLS = {
    "edge": (
        PAY,
        f"    assert amount_cents < 1_000_000_000\n{PAY}",
        ["tool"],
        "amount_cents=1000000000, method='cash') breaks it",
    ),
    "twice": (
        '    db.run("UPDATE members SET status = ? WHERE id = ?", status, member_id)\n',
        '    old = db.value("SELECT status FROM members WHERE id = ?", member_id)\n'
        "    assert old != status\n"
        '    db.run("UPDATE members SET status = ? WHERE id = ?", status, member_id)\n',
        ["tool"],
        "breaks it: set_status failed with an internal error: AssertionError",
    ),
    "unread": (
        "        method,\n        member_id,\n",
        '        "card",\n        member_id,\n',
        ["tool"],
        "pay_fine never reads its argument 'method'",
    ),
    "idle": (
        '    db.run("UPDATE members SET status = ? WHERE id = ?", status, member_id)\n',
        "",
        ["tool"],
        "set_status is named like an effect, but changes nothing",
    ),
    "writing query": (
        '    """One member with status and fine (in cents)."""\n',
        '    """One member with status and fine (in cents)."""\n'
        '    db.run("UPDATE members SET paid_by = NULL WHERE id = ?", member_id)\n',
        ["tool"],
        "get_member is named like a query, but changes rows",
    ),
    "absent": (
        '    _member(db, member_id)\n    db.run("UPDATE members SET status',
        "    db.run(\"UPDATE members SET paid_by = 'card' WHERE id = 1\")\n"
        '    db.run("UPDATE members SET status',
        ["constraint"],
        "set_status accepts member_id=999999937, which no row has, and writes: set_status(",
    ),
    "negative": (
        "    amount_cents: Annotated[int, msgspec.Meta(ge=1)],",
        "    amount_cents: int,",
        ["constraint"],
        "pay_fine accepts amount_cents=-350, and writes: pay_fine(member_id=2, amount_cents=-350,",
    ),
    "set order": (
        RENEW,
        f'{RENEW}\n    marks = ",".join({{str(loan_id), str(days)}})\n    assert marks',
        ["determinism"],
        "the order of a set differs from one process to the next; sort it",
    ),
    "global": (
        '    _member(db, member_id)\n    db.run("UPDATE members SET status',
        "    _SEEN.append(status)\n    if len(_SEEN) > 24:\n"
        '        raise ToolError("Enough.")\n'
        '    _member(db, member_id)\n    db.run("UPDATE members SET status',
        ["determinism"],
        "gives another result when it is repeated",
    ),
}


@pytest.mark.parametrize("fault", TOOLS)
def test_faults_of_a_tool(fault: str, tmp_path: Path) -> None:
    """Breaking on odd arguments, keys of no row, unread arguments, effects that change nothing,
    queries that change something, and state between episodes are reported, for unused tools too."""
    old, new, checks, words = TOOLS[fault]
    folder = variant(tmp_path, tools=(old, new))
    if fault == "global":
        path = folder / "tools.py"
        path.write_text(path.read_text().replace("Days = ", "_SEEN: list[str] = []\nDays = ", 1))
    report = checked(folder)
    assert any(words in failure.why for failure in report.failures), report.failures
    assert sorted({failure.check for failure in report.failures if not failure.task}) == checks


def test_verifiers_that_miss_grave_mistakes(tmp_path: Path) -> None:
    """A task whose verifier misses unwanted writes fails, however few they are in the world."""
    lax = (
        '    check.updated("loans", 303, due_on="2026-04-01")\n    check.nothing_else()',
        '    check.updated("loans", 303, due_on="2026-04-01")',
    )
    failure = the_failure(checked(variant(tmp_path, verify=lax)))
    assert (failure.task, failure.check) == ("renew-emma", "mutants")
    assert "an unwanted " in failure.why


def test_a_verifier_with_state(tmp_path: Path) -> None:
    """One that gives other findings after other episodes is found at the end."""
    old = '    check.answer_has("302")'
    new = (
        '    asked = overdue.__dict__.setdefault("asked", [])\n    asked.append(1)\n'
        '    check.goal("asked", True, "", str(len(asked) > 20))\n' + old
    )
    report = checked(variant(tmp_path, verify=(old, new)))
    assert [(failure.task, failure.check, failure.why) for failure in report.failures] == [
        ("overdue", "verifier", "it gives other findings after other episodes were verified")
    ]


def test_a_verifier_accepts_any_answer(tmp_path: Path) -> None:
    """Odd answers must not break it."""
    old = '    check.answer_has("302")'
    new = '    assert "{" not in answer\n' + old
    failures = checked(variant(tmp_path, verify=(old, new))).failures
    assert "after the answer '{}': verifier 'overdue'" in "; ".join(one.why for one in failures)


def test_unused_tools_are_listed(tmp_path: Path) -> None:
    """A tool that no oracle calls is listed; that is not a failure."""
    report = check_scenario(LIBRARY, FAST)
    assert (report.ok, report.unused) == (True, ("library.set_status",))


def test_a_report_cannot_command_the_terminal() -> None:
    """Names and faults of packages are printed as plain text."""
    failure = GateFailure("[/]\x1b[2J", "t", "seed", "near '\x1b]0;gone\x07[bold]'")
    report = WorldGateReport(
        worlds=1, names=("[/]\x1b[2J",), failures=(failure,), unused=("\x1b[1mtool",)
    )
    out = StringIO()
    render([report], report, Console(file=out, width=200))
    shown = out.getvalue()
    assert "\x1b" not in shown
    assert "near '\\x1b]0;gone\\x07[bold]'" in shown
    assert "[/]\\x1b[2J" in shown


SECRET = '''

def open_safe(db: Db, code: str) -> Row:
    """Open the safe with its code."""
    if code != "blue heron 7041":
        raise ToolError("That is not the code.")
    return {"open": True}
'''
PROOF = """

[[proofs.open_safe]]
name = "open_safe"
arguments = { code = "%s" }
"""


def test_a_named_proof_reaches_a_tool(tmp_path: Path) -> None:
    """Calls in scenario.toml prove a tool that no draw can call; a proof that fails is a defect."""
    for name, code, unreached, faults in (
        ("none", "", ("library.open_safe",), 0),
        ("right", "blue heron 7041", (), 0),
        ("wrong", "grey heron", ("library.open_safe",), 1),
    ):
        folder = variant(tmp_path / name)
        with (folder / "tools.py").open("a") as file:
            file.write(SECRET)
        if code:
            with (folder / "scenario.toml").open("a") as file:
                file.write(PROOF % code)
        report = checked(folder)
        assert (name, report.unreached) == (name, unreached)
        assert sum("its proof" in one.why for one in report.failures) == faults


RULE = """

[[row_rules]]
rule = "%s"
broken_by = "%s"
"""


@pytest.mark.parametrize(
    ("query", "faults"),
    [
        ("SELECT id FROM members WHERE fine_cents < 0", []),
        (
            "SELECT id FROM members WHERE fine_cents > 0",
            [("", "the start breaks its rule 'R.': id=")],
        ),
        (
            "SELECT id FROM members WHERE id = 2 AND fine_cents = 0",
            [("pay-fine", "its oracle breaks")],
        ),
        ("SELECT nothing FROM nowhere", [("", "the query of rule 'R.' fails: ")]),
    ],
)
def test_rules_as_data(tmp_path: Path, query: str, faults: list[tuple[str, str]]) -> None:
    """Neither the start nor the end of an oracle may break one."""
    folder = variant(tmp_path)
    with (folder / "scenario.toml").open("a") as file:
        file.write(RULE % ("R.", query))
    found = [one for one in checked(folder).failures if one.check == "rules"]
    assert len(found) >= len(faults)
    for (task, why), one in zip(faults, found, strict=False):
        assert (one.task, one.why[: len(why)]) == (task, why)
    assert bool(found) == bool(faults)


NEVER = """
[[never_touch]]
rule = "A blocked member's record is not changed."
table = "%s"
where = { status = ["blocked"] }
"""
NOTES = '''


def send_note(db: Db, member_id: int, body: str) -> dict[str, Any]:
    """Send a member a note; returns it."""
    _member(db, member_id)
    note_id = db.insert("notes", member_id=member_id, body=body)
    return {"note_id": note_id, "member_id": member_id, "body": body}


def list_notes(db: Db) -> list[dict[str, Any]]:
    """The notes that were sent."""
    return db.all("SELECT * FROM notes ORDER BY id")


def delete_note(db: Db, note_id: int) -> dict[str, Any]:
    """Delete a note; returns its number."""
    if not db.run("DELETE FROM notes WHERE id = ?", note_id):
        raise ToolError(f"There is no note {note_id}.")
    return {"note_id": note_id}
'''
NOTE_TASK = """

[[task]]
id = "note-ben"
instruction = "Please send Ben Roth the note 'Ulysses is here' and tell me his number."
difficulty = "medium"
kind = "change"
answer = "The note is sent to Ben Roth, number 3."
oracle = [
    { name = "find_member", arguments = { name = "Ben Roth" } },
    { name = "send_note", arguments = { member_id = 3, body = "Ulysses is here" } },
]
"""
NOTE_VERIFIER = '''


def note_ben(before: State, after: State, answer: str) -> list[Finding]:
    """The note is sent."""
    check = Check(before, after, answer)
    check.created("notes", member_id=3, body="Ulysses is here")
    check.answer_has("3")
    check.nothing_else()
    return check.findings
'''


def appended(folder: Path, **texts: str) -> Path:
    """A package with texts at the end of its files."""
    for name, text in texts.items():
        with next(folder.glob(f"{name}.*")).open("a") as file:
            file.write(text)
    return folder


def test_a_write_of_what_is_never_touched_is_an_adversary(tmp_path: Path) -> None:
    """It is played where it can be undone, and the list makes it cost the reward; a list that names
    what does not exist is a fault."""
    plain = checked(variant(tmp_path / "plain"))
    listed = checked(appended(variant(tmp_path / "listed"), scenario=NEVER % "members"))
    assert (plain.failures, listed.failures) == ((), ())
    played = [sum(one.adversaries for one in report.soundness) for report in (plain, listed)]
    assert played[1] == played[0] + len(listed.soundness)
    assert sum(one.paid for one in listed.soundness) == 0
    failure = the_failure(checked(appended(variant(tmp_path / "no"), scenario=NEVER % "people")))
    assert (failure.check, failure.why) == (
        "rules",
        "never_touch names the table 'people', which does not exist",
    )


@pytest.mark.parametrize("is_listed", [False, True])
def test_what_was_sent_cannot_be_taken_back(tmp_path: Path, is_listed: bool) -> None:
    """A note that is sent and deleted leaves no row. Where the world does not say that it has left,
    the gate says what to write, for each task."""
    folder = appended(
        variant(tmp_path),
        schema="\nCREATE TABLE notes (id INTEGER PRIMARY KEY, member_id INTEGER, body TEXT);\n",
        tools=NOTES,
        tasks=NOTE_TASK,
        verify=NOTE_VERIFIER,
    )
    if is_listed:
        head = folder / "scenario.toml"
        head.write_text('irreversible = ["notes"]\n' + head.read_text())
    failures = [one for one in checked(folder).failures if one.check == "adversaries"]
    if is_listed:
        assert failures == []
    else:
        assert {one.task for one in failures} == {task.id for task in read(folder).tasks}
        for one in failures:
            assert one.why.startswith("paid for no work: writes and writes back; send_note(")
            assert one.why.endswith("`irreversible` in scenario.toml")
