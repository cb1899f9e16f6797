"""The parts of a synthesis that need neither model nor workers."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from envpool.router import RoutingPool
from scenarios.catalogue import is_trusted
from scenarios.errors import SynthesisError
from scenarios.format import AwmSample, AwmTable, Call, Scenario
from scenarios.synth.core.answer_parsing import Unread, code_of, json_of
from scenarios.synth.core.attempts import Attempt, Checked, Outcome, summarised, tried
from scenarios.synth.core.code_rules import TOOL_IMPORTS, code_faults, verifier_faults
from scenarios.synth.core.package_files import Script, merged_python, script_of, texts_of, write
from scenarios.synth.core.prompt_files import NAMES, Prompts
from scenarios.synth.core.protocols import Purpose, Said, Turn, Unhostable
from scenarios.synth.core.seeds import read_seeds
from scenarios.synth.core.world_drafts import (
    Actor,
    Brief,
    Draft,
    Idea,
    Proven,
    Seed,
    TaskDraft,
    slug,
)
from scenarios.synth.report import DroppedTask, render, report_of
from scenarios.synth.stages.common import Sizes
from scenarios.synth.stages.database import SchemaStage, holds_several
from scenarios.synth.stages.ideas import Pool
from scenarios.synth.stages.tools import ToolsStage
from scenarios.synth.storage.output_folder import Folder, Record
from scenarios.synth.storage.spending import Ledger, Spent
from scenarios.text_similarity import cosine, embed


class Score(msgspec.Struct):
    score: int


@pytest.mark.parametrize(
    "answer",
    [
        '{"score": 8}',
        'Sure!\n```json\n{"score": 8}\n```\nAnything else?',
        '~~~\n{"score": "8",}\n~~~',
        'I think {"score": 8} fits.',
        '{"result": {"score": 8}}',
        "{'score': 8, 'note': None}",
        '<think>{"score": 1}</think>{"score": 8}',
        'thinking aloud</think>\n{"score": 8}',
        '```json\n{"score": 8, "note": "two\nlines"}\n```',
        '```json\n{"score": 8}',
        "<think>{}</think> so <think>{}</think>\n" + '{"score": 8}',
        '{"score": 8, "note": "\\ud83d"}',
    ],
)
def test_json_is_found_whatever_stands_around_it(answer: str) -> None:
    """Bare, fenced, wrapped, in Python's words, after thoughts, in a fence that never ends."""
    assert json_of(answer, Score) == Score(8)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("I would rather not.", "there is no JSON in the answer"),
        ("", "there is no JSON in the answer"),
        ('{"score": "high"}', "score: expected `int`, got `str`"),
        ('{"points": 3}', "object missing required field `score`"),
        ("[" * 100_000, "there is no JSON in the answer"),
        ("<think>" * 100_000, "there is no JSON in the answer"),
        ("{'score': 1j}", "there is no JSON in the answer"),
    ],
)
def test_an_answer_without_the_json_is_told(answer: str, fault: str) -> None:
    """The sentence names the field that is wrong with what was meant."""
    with pytest.raises(Unread) as told:
        json_of(answer, Score)
    assert str(told.value) == fault


@pytest.mark.parametrize(
    "answer",
    [
        "```python\nx = 1\n```",
        "First `y`:\n```\ny\n```\nthen\n```py\nx = 1\n```\n",
        '{"code": "x = 1"}',
        '```json\n{"full_code": "x = 1"}\n```',
    ],
)
def test_code_is_found_in_fences_and_fields(answer: str) -> None:
    """The longest fence of Python counts."""
    assert code_of(answer) == "x = 1\n"


def test_halves_of_letters_are_replaced() -> None:
    """Neither a file nor a request can hold half of a surrogate pair."""
    assert json_of('{"a": ["\\ud83d!"]}', dict[str, list[str]]) == {"a": ["?!"]}
    assert json_of("{'a': ['\\ud83d!']}", dict[str, list[str]]) == {"a": ["?!"]}


def test_an_answer_without_code_is_told() -> None:
    """Prose is no code."""
    with pytest.raises(Unread, match="there is no Python"):
        code_of("I cannot write that.")
    assert code_of("import re\n\nx = re") == "import re\n\nx = re\n"


def test_texts_of_one_wording_are_alike() -> None:
    """Equal texts have cosine 1, reworded ones come near it, others stay near 0, none has 0."""
    one, two, three, none = embed(
        [
            "A bakery takes orders for bread and cakes, with stock and deliveries.",
            "A bakery takes orders for cakes and bread, with deliveries and stock.",
            "Rowing clubs book boats, coaches and lanes on the river.",
            "--- !",
        ]
    )
    assert round(cosine(one, one), 9) == 1.0
    assert cosine(one, two) > 0.75
    assert abs(cosine(one, three)) < 0.2
    assert cosine(one, none) == 0.0
    with pytest.raises(ValueError, match="vectors of 512 and 1 numbers"):
        cosine(one, [1.0])


def test_seeds_are_read_line_by_line(tmp_path: Path) -> None:
    """Blank lines and a byte order mark are passed over."""
    path = tmp_path / "seeds.jsonl"
    path.write_text('\ufeff{"name": "A b", "description": "c"}\n\n{"name":"D","description":"e"}')
    assert read_seeds(path) == (Seed("A b", "c"), Seed("D", "e"))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "there is no seed in it"),
        ('{"name": "A"}', "line 1: object missing required field `description`"),
        ('{"name": "A", "description": "b"}\n{"name": 3}', "line 2: name: expected `str`"),
        ('{"name": "A", "description": " "}', "line 1: description: must not be empty"),
        ('{"name": "?!", "description": "b"}', "line 1: name: '?!' has no letter"),
        ('{"name": "A", "description": "b"}\n' * 2, "line 2: name: 'A' is there already"),
        ("{", "line 1: "),
    ],
)
def test_a_seed_file_with_a_hole_is_told(tmp_path: Path, text: str, fault: str) -> None:
    """File, line and field are named."""
    path = tmp_path / "seeds.jsonl"
    path.write_text(text)
    with pytest.raises(SynthesisError) as told:
        read_seeds(path)
    assert str(told.value).startswith(f"{path}: {fault}")


def test_a_seed_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """So is one that is no text."""
    with pytest.raises(SynthesisError, match="the seeds cannot be read"):
        read_seeds(tmp_path / "none.jsonl")


def test_prompts_are_overridden_file_by_file(tmp_path: Path) -> None:
    """What the folder does not have is ours, and each has a version with a digest."""
    (tmp_path / "feedback.md").write_text("version: mine-2\n--- user\nNo: {{problems}}")
    prompts = Prompts(tmp_path)
    values = {"problems": "{{name}} is bad"}
    assert prompts.turns("feedback", **values) == (Turn("user", "No: {{name}} is bad"),)
    assert prompts.version("feedback").startswith("mine-2 (")
    assert prompts.version("schema") == Prompts().version("schema")


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("feedback.md", "--- user\nx", "expected a first line such as `version: 1`"),
        ("feedback.md", "version: 1\nx\n--- user\ny", "expected `--- system` and `--- user`"),
        ("feedback.md", "version: 1\n--- user\n{{tables}}", "{{tables}} is not known here"),
        ("feedbak.md", "version: 1\n--- user\nx", "no stage has a prompt of this name"),
    ],
)
def test_a_prompt_that_cannot_be_used_is_told(
    tmp_path: Path, name: str, text: str, fault: str
) -> None:
    """The file is named."""
    (tmp_path / name).write_text(text)
    with pytest.raises(SynthesisError) as told:
        Prompts(tmp_path)
    assert str(told.value).startswith(f"{tmp_path / name}: {fault}")


def test_each_prompt_of_ours_tells_its_stage() -> None:
    """Those that open a stage say which in their first words."""
    prompts = Prompts()
    for name in set(NAMES) - {"feedback", "repair"}:
        values = dict.fromkeys(prompts._prompts[name].fields, "x")
        turns = prompts.turns(name, **values)
        assert [turn.role for turn in turns] == ["system", "user"]
        assert turns[0].text.startswith(f"Stage: {name}.")


def test_alike_faults_are_told_once() -> None:
    """Numbers aside; of very many kinds only the first are told."""
    assert summarised(["row 1 is bad", "no table", "row 22 is bad"]) == (
        "row 1 is bad (and 1 like it)",
        "no table",
    )
    many = [f"fault {'x' * n}" for n in range(1, 16)]
    assert summarised(many) == (*many[:12], "and 3 more")


class Scripted:
    """An author with answers, and a step that counts the x in them: faults, one each."""

    purpose = Purpose("tasks", "w")

    def __init__(self, *answers: str, bearable: int = 0) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, ...]] = []
        self.bearable = bearable

    async def say(self, turns: tuple[Turn, ...], purpose: Purpose, *, seed: int) -> Said:
        self.asked.append(tuple(turn.text for turn in turns))
        text = self.answers[len(self.asked) - 1]
        return Said("", "the answer is empty") if not text else Said(text)

    async def embed(self, texts: list[str], purpose: Purpose) -> list[list[float]]:
        raise AssertionError("not asked for")

    def opening(self) -> tuple[Turn, ...]:
        return (Turn("user", "question"),)

    def again(self, problems: str) -> tuple[Turn, ...]:
        return (Turn("user", problems),)

    async def check(self, text: str) -> Checked[str]:
        faults = tuple(f"fault of {text}" for _ in range(text.count("x")))
        return Checked(text, faults, bearable=0 < len(faults) <= self.bearable)


@pytest.mark.anyio
async def test_an_author_sees_its_last_answer_and_what_is_wrong_with_it() -> None:
    """Asking ends with the first answer that holds."""
    author = Scripted("axx", "bx", "c", "d")
    outcome = await tried(author, author)
    assert outcome == Outcome(
        "c",
        True,
        (
            Attempt(("fault of axx (and 1 like it)",), 2),
            Attempt(("fault of bx",), 1),
            Attempt(),
        ),
        answer="c",
    )
    assert author.asked == [
        ("question",),
        ("question", "axx", "- fault of axx (and 1 like it)"),
        ("question", "bx", "- fault of bx"),
    ]


@pytest.mark.anyio
async def test_the_best_of_hopeless_answers_is_kept() -> None:
    """The one with the fewest faults; an empty answer is none."""
    author = Scripted("axxx", "bx", "", "cxx", "dxx")
    outcome = await tried(author, author)
    assert (outcome.value, outcome.ok, outcome.answer) == ("bx", False, "bx")
    assert [attempt.num_faults for attempt in outcome.attempts] == [3, 1, 1, 2, 2]
    assert author.asked[3] == ("question", "- the answer is empty")


@pytest.mark.anyio
async def test_bearable_faults_become_notes_after_one_correction() -> None:
    """A worse answer in between does not take the bearable one's place."""
    author = Scripted("ax", "bxx", "cx", "dx", "e", bearable=1)
    outcome = await tried(author, author)
    assert (outcome.value, outcome.ok, outcome.notes) == ("dx", True, ("fault of dx",))
    assert len(outcome.attempts) == 4


@pytest.mark.parametrize(
    ("code", "faults"),
    [
        ("import os\n", ["line 1: os cannot be imported here"]),
        ("from . import x\n", ["line 1: . cannot be imported here"]),
        ("x = open('f')\n", ["line 1: open is not to be used"]),
        ("x = (\n", ["line 1: '(' was never closed"]),
        (
            "import datetime\nx = datetime.datetime.now()\n",
            ["line 2: now() is the wall clock; the world's time is db.now"],
        ),
        ("from scenarios.api import Db\n\ndef f(db: Db) -> str:\n    return db.now\n", []),
    ],
)
def test_tools_may_not_reach_out_of_their_world(code: str, faults: list[str]) -> None:
    """Their text tells, without executing it."""
    assert code_faults(code, TOOL_IMPORTS) == faults


def test_a_verifier_is_one_function() -> None:
    """Of the given name, with imports and nothing else."""
    assert verifier_faults("import re\n\ndef f(b, a, x):\n    return []\n", "f") == []
    assert verifier_faults("Y = 1\n\ndef g(b, a, x):\n    return []\n", "f") == [
        "line 1: only imports and the one function may stand there; "
        "put constants and helpers inside of it",
        "expected one function 'f', found g",
    ]


def test_statements_keep_their_numbers_in_a_script() -> None:
    """One that was set aside leaves its number."""
    script = script_of(["A", " B\n(1);", "", "C"])
    assert script == Script("A;\n\nB\n(1);\n\n\nC;\n\n", (1, 3, 6, 7))
    assert [script.statement_at(line) for line in (1, 3, 4, 7)] == [1, 2, 2, 4]


def test_a_comment_swallows_no_statement() -> None:
    """What ends in one gets its semicolon on a line of its own."""
    assert script_of(["A -- a", "B"]) == Script("A -- a\n;\n\nB;\n\n", (1, 4))


def test_names_of_several_places_stay_apart() -> None:
    """Each function sees what it imports, whatever another one calls by this name."""
    one = "import re\nimport datetime\n\ndef f():\n    'Doc.'\n    return datetime.date, re\n"
    two = "from __future__ import annotations\nfrom datetime import datetime\n\n"
    two += "def re(x: y):\n    return datetime\n"
    merged = merged_python([one, two])
    assert merged == (
        "from __future__ import annotations\n\n\n"
        'def f():\n    """Doc."""\n    import datetime\n    import re\n'
        "    return (datetime.date, re)\n\n\n"
        "def re(x: y):\n    from datetime import datetime\n    return datetime\n"
    )
    compile(merged, "verify.py", "exec")


def test_verifiers_share_their_imports() -> None:
    """Functions follow, in their order, as they were written."""
    one = "from a import x, y\nimport re\n\ndef f():\n    # one\n    return 1\n"
    two = "from a import z, x\n\ndef g():\n    return 2\n"
    assert merged_python([one, two]) == (
        "import re\nfrom a import x, y, z\n\n\n"
        "def f():\n    # one\n    return 1\n\n\ndef g():\n    return 2\n"
    )


def _draft() -> Draft:
    verifier = (
        "from scenarios.api import State\nfrom scenarios.checks import Check, Finding\n\n"
        "def say_it(before: State, after: State, answer: str) -> list[Finding]:\n    return []\n"
    )
    task = TaskDraft("say-it", "question", "Say it, please.")
    return Draft(
        Idea("Say It!", "A place  where\nthings are said."),
        Brief(Actor("Noor Haddad", "desk"), "- Be brief.", (task,)),
        (AwmTable("t", "CREATE TABLE t (id INTEGER PRIMARY KEY)", ("CREATE INDEX i ON t (id)",)),),
        (AwmSample("t", ("INSERT INTO t (id) VALUES (1)",)),),
        proven=(Proven(task, verifier, (Call("list_tables"),), "It.", "simple", 1, 1),),
    )


class Unbroken:
    """A bench on which every package is hosted, and none is looked at."""

    @asynccontextmanager
    async def host(self, scenario: Scenario) -> AsyncIterator[Any]:
        yield None


@pytest.mark.parametrize(
    ("tool", "fault"),
    [
        ({"name": "import"}, "tool 'import': its name must be a lower-case identifier and no"),
        ({"parameters": {"from": {}}}, "tool find: parameter 'from' must be a lower-case"),
        ({"parameters": {"a": {"type": [["string"]]}}}, "tool find: parameter a: ['string'] is no"),
        ({"parameters": {"a": {"type": {"type": {}}}}}, "tool find: parameter a: {} is no type"),
    ],
)
async def test_a_tool_is_what_python_can_have(
    tmp_path: Path, tool: dict[str, Any], fault: str
) -> None:
    """A word of Python's and a type that is none are told, and nothing else is."""
    stage = ToolsStage(_draft(), Prompts(), Sizes(), Unbroken(), tmp_path / "p")
    given = {"name": "find", "description": "Finds."} | tool
    checked = await stage.check(json.dumps({"tools": [given]}))
    [told] = checked.faults
    assert told.startswith(fault)


@pytest.mark.parametrize(
    ("columns", "faults"),
    [
        ("id INTEGER, password_hash TEXT", ("table t: no column for a password_hash",)),
        ('id INTEGER,\n  "Salt" BLOB', ("table t: no column for a salt",)),
        ("auth_token TEXT", ("table t: no column for a auth_token",)),
        ("salt_grams REAL, kind TEXT CHECK (kind IN ('oil', 'salt'))", ()),
    ],
)
async def test_no_column_is_for_a_secret(
    tmp_path: Path, columns: str, faults: tuple[str, ...]
) -> None:
    """Wherever it stands in its statement; salt may be weighed."""
    stage = SchemaStage(_draft(), Prompts(), Sizes(), Unbroken(), tmp_path / "p")
    table = {"name": "t", "ddl": f"CREATE TABLE t ({columns})"}
    assert (await stage.check(json.dumps({"tables": [table]}))).faults == faults


def test_a_draft_becomes_a_package_that_runs_in_workers_only(tmp_path: Path) -> None:
    """It reads as it was written, and says that a model wrote it."""
    scenario = write(tmp_path / "say_it", texts_of(_draft()))
    assert scenario.name == "say_it"
    assert scenario.description == "A place where things are said."
    assert (scenario.user.id, scenario.user.name) == ("noor.haddad", "Noor Haddad")
    assert scenario.schema_sql.count(";") == 2
    assert scenario.tasks[0].oracle == (Call("list_tables"),)
    assert scenario.written_by == "model"
    assert not is_trusted(scenario)
    assert RoutingPool().isolates(scenario)
    again = write(tmp_path / "say_it", texts_of(_draft()))
    assert again.digest == scenario.digest
    assert [path.name for path in tmp_path.iterdir()] == ["say_it"]


def test_a_package_says_people_or_model(tmp_path: Path) -> None:
    """A third word is refused, with the field."""
    texts = texts_of(_draft())
    texts["scenario.toml"] = texts["scenario.toml"].replace('"model"', '"cat"')
    with pytest.raises(Unhostable) as told:
        write(tmp_path / "say_it", texts)
    assert told.value.reason == "scenario.toml: written_by: invalid enum value 'cat'"


def test_ids_are_made_of_words() -> None:
    """Long ones are cut, odd letters dropped."""
    assert slug("Refund the late parcel, of Ana's!") == "refund-the-late-parcel-of-ana"
    assert slug("¿…?") == ""


def test_a_ledger_outlives_a_kill(tmp_path: Path) -> None:
    """A last line that was cut off is dropped, and the next is not joined to it."""
    path = tmp_path / "ledger.jsonl"
    Ledger(path).add(Spent("tasks", "w", 10, 0, 5, 0.25))
    with path.open("ab") as file:
        file.write(b'{"stage": "sch')
    ledger = Ledger(path)
    ledger.add(Spent("code", cost_usd=None))
    entries = [Spent("tasks", "w", 10, 0, 5, 0.25), Spent("code", cost_usd=None)]
    assert Ledger(path).entries == entries
    assert ledger.usd == 0.25


def test_a_folder_keeps_what_it_began_with(tmp_path: Path) -> None:
    """A setting that may not change is named, and so is a folder of something else."""
    out = tmp_path / "out"
    Folder(out).begin({"seed": 1, "count": 2}, frozenset({"count"}))
    Folder(out).begin({"seed": 1, "count": 3}, frozenset({"count"}))
    with pytest.raises(SynthesisError) as told:
        Folder(out).begin({"seed": 2, "count": 3}, frozenset({"count"}))
    assert str(told.value) == (
        f"{out / 'synthesis.toml'}: seed: it began with 1, and 2 is asked for now: keep it, or "
        "take a new folder"
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(SynthesisError, match="something else's folder"):
        Folder(tmp_path / "other").begin({}, frozenset())


def test_a_folder_has_one_process_at_a_time(tmp_path: Path) -> None:
    """The second is told at once."""
    first, second = Folder(tmp_path), Folder(tmp_path)
    with first.alone(), pytest.raises(SynthesisError, match="another process"), second.alone():
        raise AssertionError("two at once")
    with second.alone():
        pass


def test_a_record_that_was_spoiled_is_told(tmp_path: Path) -> None:
    """With the file, and what to do."""
    folder = Folder(tmp_path)
    record = Record("schema", "0", "1", True, (Attempt(),), value=[1])
    folder.keep("w", record)
    assert folder.record("w", "schema") == record
    assert folder.record("w", "data") is None
    file = folder.stage_file("w", "schema")
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(SynthesisError) as spoiled:
        folder.record("w", "schema")
    assert str(spoiled.value).startswith(f"{file}: ")
    assert str(spoiled.value).endswith("(delete the file to have it made again)")


def test_a_report_cannot_steer_the_terminal() -> None:
    """What a model wrote is shown without its control characters."""
    report = msgspec.structs.replace(
        report_of(Pool(0.85, 80), (), Folder(Path("nowhere")), Ledger(Path("none")), stopped="x"),
        dropped=(DroppedTask("w", "t", "a\x1b]0;b\x07\nc"),),
    )
    console = Console(file=StringIO(), width=200)
    render(report, console)
    assert isinstance(console.file, StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert lines[-2:] == ["dropped w/t: a\ufffd]0;b\ufffd c", "unfinished x"]


@pytest.mark.parametrize(
    ("statement", "several"),
    [
        ("INSERT INTO t VALUES (1)", False),
        ("INSERT INTO t VALUES ('a; DELETE FROM t');  -- one; only", False),
        ("CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM u; DELETE FROM v; END;", False),
        ("INSERT INTO t VALUES (1); DELETE FROM t", True),
        ("INSERT INTO t VALUES (';'); -- so\nDROP TABLE t;", True),
    ],
)
def test_several_statements_do_not_pass_for_one(statement: str, several: bool) -> None:
    """What is looked at for its first word must be one statement."""
    assert holds_several(statement) is several
