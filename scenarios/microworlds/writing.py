"""Writing micro-worlds as scenario packages."""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.generate.core.package import Package, inserts
from rehearsal_room.scenarios.microworlds.tasks import TaskWithChecks, draw_tasks
from rehearsal_room.scenarios.microworlds.words import MicroworldSplit
from rehearsal_room.scenarios.microworlds.world import MicroWorld, draw_world

_USER = User("kim", "Kim", "clerk")
_CLOCK = "2026-01-05T09:00:00Z"
_TOOLS_HEAD = '''\
"""The tools of this micro-world."""

from scenarios.api import Db, Row
from scenarios.errors import ToolError
'''
_VERIFY_HEAD = '''\
"""What each task must have changed."""

from scenarios.api import State
from scenarios.checks import Check, Finding
'''


def write_microworlds(
    folder: Path, *, seed: int, count: int, split: MicroworldSplit, each: int = 2
) -> list[Path]:
    """Write `count` packages below `folder`, with `each` tasks of every kind; return their folders.

    The same arguments give the same bytes, and packages that exist already are overwritten.
    Raises OSError.
    """

    def package(full: str, rng: Random) -> Package:
        world = draw_world(rng, name=full, split=split)
        return package_of(world, draw_tasks(world, rng, each=each))

    name = "microworld" if split == "train" else "held_out"
    return write_packages(folder, package, name=name, seed=seed, count=count, of=split)


def write_packages(
    folder: Path,
    package: Callable[[str, Random], Package],
    *,
    name: str,
    seed: int,
    count: int,
    of: str = "",
) -> list[Path]:
    """Write `count` packages below `folder`, `name_seed_0000` and so on, and return their folders.

    `package` draws one from its name and its own random numbers, which follow from `of` (empty:
    `name`), the seed and its number. Raises OSError.
    """
    folders = []
    for number in range(count):
        full = f"{name}_{seed}_{number:04d}"
        drawn = package(full, Random(f"{seed} {of or name} {number}"))
        place = folder / full
        place.mkdir(parents=True, exist_ok=True)
        for file, text in drawn.texts().items():
            (place / file).write_text(text)
        folders.append(place)
    return folders


def package_of(world: MicroWorld, tasks: list[TaskWithChecks]) -> Package:
    """The package of a micro-world and its tasks."""
    return micro_package(
        name=world.name,
        title=f"Micro-world: {world.subject[1]} and {world.object[1]}",
        description=f"Two small tables of the trade {world.trade}, to practise tool use on.",
        schema_sql=_schema(world),
        data_sql=_data(world),
        tools=[_tool(world, kind) for kind in world.tools],
        tasks=tasks,
    )


def micro_package(
    *,
    name: str,
    title: str,
    description: str,
    schema_sql: str,
    data_sql: str,
    tools: Sequence[str],
    tasks: Sequence[TaskWithChecks],
) -> Package:
    """A package of a few tools, whose verifiers are the tasks' checks and that nothing else
    changed."""
    return Package(
        name=name,
        title=title,
        description=description,
        clock=_CLOCK,
        user=_USER,
        schema_sql=schema_sql,
        data_sql=data_sql,
        tools=_TOOLS_HEAD + "".join(tools),
        policy="",
        tasks=tuple(one.task for one in tasks),
        verify=_VERIFY_HEAD + "".join(map(_verifier, tasks)),
    )


def _schema(world: MicroWorld) -> str:
    return f"""\
CREATE TABLE {world.object[1]} (
  id INTEGER PRIMARY KEY,
  {world.object_field} INTEGER NOT NULL,
  state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed'))
);

CREATE TABLE {world.subject[1]} (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  {world.subject_field} INTEGER NOT NULL,
  {world.object[0]} INTEGER NOT NULL
);
"""


def _data(world: MicroWorld) -> str:
    objects = [{"id": one.id, world.object_field: one.number} for one in world.objects]
    subjects = [
        {
            "id": one.id,
            "name": one.name,
            world.subject_field: one.number,
            world.object[0]: one.object,
        }
        for one in world.subjects
    ]
    return inserts(world.object[1], objects) + inserts(world.subject[1], subjects)


def _verifier(drawn: TaskWithChecks) -> str:
    lines = "".join(f"    {line}\n" for line in (*drawn.checks, "check.nothing_else()"))
    return f'''

def {drawn.task.verifier}(before: State, after: State, answer: str) -> list[Finding]:
    """{drawn.task.id}."""
    check = Check(before, after, answer)
{lines}    return check.findings
'''


def _tool(world: MicroWorld, kind: str) -> str:
    (noun, plural), (other, others) = world.subject, world.object
    one, field = world.subject_field, world.object_field
    match kind:
        case "find":
            return reading_tool(
                f"find_{noun}(db: Db, {noun}: str)",
                "Find one by its name.",
                f'"SELECT id AS {noun} FROM {plural} WHERE name = ?", {noun}',
                f"There is no {noun} of this name.",
            )
        case "get_subject":
            return _reader(noun, plural, "name", one, other)
        case "get_object":
            return _reader(other, others, field, "state")
        case "set_subject":
            return changing_tool(f"set_{noun}_{one}", noun, plural, f"{one}: int")
        case "set_object":
            return changing_tool(f"set_{other}_{field}", other, others, f"{field}: int")
        case "rename":
            found = f'db.one("SELECT id FROM {plural} WHERE name = ?", name)'
            refusal = _refusal(f"{found} is not None", f"Another {noun} has this name.")
            return changing_tool(f"rename_{noun}", noun, plural, "name: str", *refusal)
        case "link":
            return changing_tool(f"link_{noun}", noun, plural, f"{other}: int")
        case "close":
            return _changer(f"close_{other}", other, f"UPDATE {others} SET state = 'closed'")
        case "delete":
            return _changer(f"delete_{other}", other, f"DELETE FROM {others}")
    assert kind == "add"
    return _function(
        f"add_{other}(db: Db, {field}: int)",
        "Add one.",
        f'return {{"{other}": db.insert("{others}", {field}={field})}}',
    )


def _reader(noun: str, plural: str, *columns: str) -> str:
    selected = ", ".join([f"id AS {noun}", *columns])
    return reading_tool(
        f"get_{noun}(db: Db, {noun}: int)",
        "Get one.",
        f'"SELECT {selected} FROM {plural} WHERE id = ?", {noun}',
        f"There is no {noun} of this id.",
    )


def reading_tool(signature: str, about: str, query: str, refusal: str) -> str:
    """A tool that returns the row which a query finds; without a row it refuses. `query` has the
    statement, quoted, and its parameters."""
    return _function(
        signature,
        about,
        f"row = db.one({query})",
        *_refusal("row is None", refusal),
        "return row",
    )


def changing_tool(name: str, noun: str, plural: str, argument: str, *before: str) -> str:
    """A tool that sets one column of the row with an id; `argument` is the column and its type,
    `before` are lines that come first."""
    column = argument.partition(":")[0]
    return _function(
        f"{name}(db: Db, {noun}: int, {argument})",
        "Change one.",
        *before,
        f'done = db.run("UPDATE {plural} SET {column} = ? WHERE id = ?", {column}, {noun})',
        *_refusal("not done", f"There is no {noun} of this id."),
        'return "done"',
    )


def _changer(name: str, noun: str, statement: str) -> str:
    return _function(
        f"{name}(db: Db, {noun}: int)",
        f"{name.partition('_')[0].capitalize()} one.",
        f'done = db.run("{statement} WHERE id = ?", {noun})',
        *_refusal("not done", f"There is no {noun} of this id."),
        'return "done"',
    )


def _refusal(condition: str, sentence: str) -> tuple[str, str]:
    return f"if {condition}:", f'    raise ToolError("{sentence}")'


def _function(signature: str, about: str, *lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    returned = "str" if lines[-1] == 'return "done"' else "Row"
    return f'\n\ndef {signature} -> {returned}:\n    """{about}"""\n{body}'
