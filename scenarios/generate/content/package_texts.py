"""The texts of a package that follow from a drawn world: schema, data, tools, policy, head."""

from collections.abc import Collection, Sequence

from scenarios.api import User
from scenarios.generate.content.drawn_world import DrawnWorld, dressed_rows, parameter_texts
from scenarios.generate.core.package import Package, inserts
from scenarios.generate.plan.business_modules import (
    CodePiece,
    ToolsCode,
    needed_pieces,
    shared_code,
)

_KEY = "  id INTEGER PRIMARY KEY,\n"


def package_of(world: DrawnWorld) -> Package:
    """Return the package without tasks, with all tools of its modules."""
    me = world.maker.me
    role = str(world.dressers["staff"].value(me["role"]))
    user = User(me["login"], me["name"], role)
    about = world.trade.about.format(business=world.business)
    contents = "; ".join(world.dressers[one.name].text(one.head.about) for one in world.modules)
    return Package(
        name=world.plan.name,
        title=world.trade.title.format(business=world.business),
        description=f"{about} The system keeps {contents}.",
        clock=world.clock,
        user=user,
        schema_sql=schema_of(world),
        data_sql=data_of(world),
        tools=tools_of(world, None),
        policy=policy_of(world, user),
    )


def schema_of(world: DrawnWorld) -> str:
    """Return the tables of all modules; a table comes after those that it refers to."""
    found = []
    for one in world.modules:
        text = world.dressers[one.name].text(one.schema)
        for table, names in world.noise.items():
            if table in one.tables and names:
                dresser = world.dressers[one.name]
                head = f"CREATE TABLE {dresser.name(table)} (\n{_KEY}"
                columns = "".join(f"  {dresser.name(name)} TEXT,\n" for name in names)
                text = text.replace(head, head + columns)
        found.append(text)
    front = "-- Money is in hundredths, moments are ISO 8601 in UTC, days are YYYY-MM-DD.\n"
    return f"{front}\n" + "\n\n".join(found) + "\n"


def data_of(world: DrawnWorld) -> str:
    """Return the statements of the seed rows, table by table."""
    found = [f"-- The clock stands at {world.clock}.\n"]
    for one in world.modules:
        for table in one.tables.values():
            rows = dressed_rows(world, one, table)
            name = world.dressers[one.name].name(table.name)
            found += [inserts(name, rows)] if rows else []
    return "\n".join(found)


def tools_of(world: DrawnWorld, tools: Collection[str] | None) -> str:
    """Return one file with these tools (canonical names; None: all) and the code that they need."""
    modules = [(one.head.title, one.code, one.name) for one in world.modules]
    pieces = [piece for _, code, _ in modules for piece in code.pieces]
    shared = shared_code()
    names = [piece.name for piece in pieces if piece.is_tool and (not tools or piece.name in tools)]
    needed = needed_pieces([*shared.pieces, *pieces], names)
    blocks = [_imports([shared, *(code for _, code, _ in modules)], needed)]
    texts = [_constant(piece, world) or piece.text for piece in _selected(shared, needed)]
    blocks.append(_join(_selected(shared, needed), texts))
    for title, code, name in modules:
        dresser = world.dressers[name]
        selected = _selected(code, needed)
        texts = [_constant(piece, world) or piece.text for piece in selected]
        if selected:
            rule = f"# --- {dresser.text(title).lower()} ".ljust(95, "-")
            blocks.append(f"{rule}\n\n\n{dresser.text(_join(selected, texts))}")
    doc = f'"""The tools of {world.business}. Rules that no tool enforces stand in policy.md."""'
    head = f"{doc}\n\n{blocks[0]}\n\n{blocks[1]}"  # the shared part begins with constants
    return "\n\n\n".join((head, *blocks[2:])) + "\n"


def with_called_tools(world: DrawnWorld, tools: Collection[str]) -> list[str]:
    """Return these tools (canonical names) and the tools that their code calls."""
    pieces = [piece for one in world.modules for piece in one.code.pieces]
    needed = needed_pieces([*shared_code().pieces, *pieces], list(tools))
    return [piece.name for piece in pieces if piece.is_tool and piece.name in needed]


def _selected(code: ToolsCode, needed: Collection[str]) -> list[CodePiece]:
    return [piece for piece in code.pieces if piece.name in needed]


def _imports(codes: Sequence[ToolsCode], needed: Collection[str]) -> str:
    used = {name for code in codes for piece in _selected(code, needed) for name in piece.uses}
    imported = {what for code in codes for name, what in code.imports.items() if name in used}
    lines = []
    for source in sorted({source for source, _ in imported}):
        names = sorted(name for origin, name in imported if origin == source)
        if source:
            lines.append(f"from {source} import {', '.join(names)}")
        else:
            lines += [f"import {name}" for name in names]
    ours = [line for line in lines if line.startswith("from scenarios")]
    third = [line for line in lines if line == "import msgspec"]
    rest = [line for line in lines if line not in (*ours, *third)]
    return "\n\n".join("\n".join(group) for group in (rest, third, ours) if group)


def _constant(piece: CodePiece, world: DrawnWorld) -> str | None:
    """The line of a constant that is drawn for each world; None: the piece is something else."""
    if piece.name == "CURRENCY":
        return f'CURRENCY = "{world.trade.currency}"'
    value = world.parameters.get(piece.name)
    return None if value is None else f"{piece.name} = {value:_}"


def _join(pieces: Sequence[CodePiece], texts: Sequence[str]) -> str:
    found = ""
    for index, (piece, text) in enumerate(zip(pieces, texts, strict=True)):
        is_wide = index and (piece.is_block or pieces[index - 1].is_block)
        found += ("\n\n\n" if is_wide else "\n" if index else "") + text
    return found


def policy_of(world: DrawnWorld, user: User) -> str:
    """Return the rules: those of all trades, those of the trade, those of each module."""
    shown = parameter_texts(world)
    sections = [
        f"## {world.dressers[one.name].text(one.head.title)}\n\n"
        + world.dressers[one.name].template(one.policy, shown)
        for one in world.modules
    ]
    front = _GENERAL.format(
        business=world.business,
        tone=world.trade.tone,
        name=user.name,
        login=user.id,
        role=user.role,
        day=world.clock[:10],
        currency=world.trade.currency,
    )
    return front + "\n\n".join(sections) + "\n"


_GENERAL = """\
# {business}: rules for those who work in the system

{tone}

You act for {name} (login {login}), whose role is {role}. Today is {day}. Times are in UTC, money \
in the tools is in hundredths of {currency}.

## In general

- Look a record up before you change it, and make sure that it is the one that is meant: names may \
be alike.
- Do what is asked and nothing besides. Carry out several requests in the order in which they are \
made.
- When a rule or your role forbids a request, change nothing for it, not even in part or by \
another way: say that you decline and name the rule. Other requests made with it are still \
carried out.
- Answer questions with the fact asked for, as the system has it.

"""
