"""The texts of a world that follow from its setting: schema, data, tools, policy, description."""

from collections.abc import Collection, Sequence

from scenarios.api import User
from scenarios.generate.content.drawn_world import Setting, dressed_rows, shown_parameters
from scenarios.generate.core.package import Package, inserts
from scenarios.generate.plan.business_modules import Code, Piece, reached, shared_code

_KEY = "  id INTEGER PRIMARY KEY,\n"


def package_of(setting: Setting) -> Package:
    """The world without tasks, with all the tools that its modules have."""
    me = setting.maker.me
    role = str(setting.dressers["staff"].value(me["role"]))
    user = User(me["login"], me["name"], role)
    about = setting.trade.about.format(business=setting.business)
    kept = "; ".join(setting.dressers[one.name].text(one.head.about) for one in setting.modules)
    return Package(
        name=setting.plan.name,
        title=setting.trade.title.format(business=setting.business),
        description=f"{about} The system keeps {kept}.",
        clock=setting.clock,
        user=user,
        schema_sql=schema_of(setting),
        data_sql=data_of(setting),
        tools=tools_of(setting, None),
        policy=policy_of(setting, user),
    )


def schema_of(setting: Setting) -> str:
    """The tables of all modules, what is referred to first."""
    found = []
    for one in setting.modules:
        text = setting.dressers[one.name].text(one.schema)
        for table, names in setting.noise.items():
            if table in one.tables and names:
                dresser = setting.dressers[one.name]
                head = f"CREATE TABLE {dresser.name(table)} (\n{_KEY}"
                columns = "".join(f"  {dresser.name(name)} TEXT,\n" for name in names)
                text = text.replace(head, head + columns)
        found.append(text)
    front = "-- Money is in hundredths, moments are ISO 8601 in UTC, days are YYYY-MM-DD.\n"
    return f"{front}\n" + "\n\n".join(found) + "\n"


def data_of(setting: Setting) -> str:
    """The seed rows, table by table."""
    found = [f"-- The clock stands at {setting.clock}.\n"]
    for one in setting.modules:
        for table in one.tables.values():
            rows = dressed_rows(setting, one, table)
            name = setting.dressers[one.name].name(table.name)
            found += [inserts(name, rows)] if rows else []
    return "\n".join(found)


def tools_of(setting: Setting, kept: Collection[str] | None) -> str:
    """One file of the tools that are kept (canonical names; None: all) and of what they need."""
    modules = [(one.head.title, one.code, one.name) for one in setting.modules]
    pieces = [piece for _, code, _ in modules for piece in code.pieces]
    shared = shared_code()
    tools = [piece.name for piece in pieces if piece.is_tool and (not kept or piece.name in kept)]
    needed = reached([*shared.pieces, *pieces], tools)
    blocks = [_imports([shared, *(code for _, code, _ in modules)], needed)]
    texts = [_constant(piece, setting) or piece.text for piece in _kept(shared, needed)]
    blocks.append(_joined(_kept(shared, needed), texts))
    for title, code, name in modules:
        dresser = setting.dressers[name]
        stays = _kept(code, needed)
        texts = [_constant(piece, setting) or piece.text for piece in stays]
        if stays:
            rule = f"# --- {dresser.text(title).lower()} ".ljust(95, "-")
            blocks.append(f"{rule}\n\n\n{dresser.text(_joined(stays, texts))}")
    doc = f'"""The tools of {setting.business}. Rules that no tool enforces stand in policy.md."""'
    head = f"{doc}\n\n{blocks[0]}\n\n{blocks[1]}"  # the shared part begins with constants
    return "\n\n\n".join((head, *blocks[2:])) + "\n"


def with_called(setting: Setting, kept: Collection[str]) -> list[str]:
    """The tools that are kept (canonical names), and those that they call and that stay for it."""
    pieces = [piece for one in setting.modules for piece in one.code.pieces]
    needed = reached([*shared_code().pieces, *pieces], list(kept))
    return [piece.name for piece in pieces if piece.is_tool and piece.name in needed]


def _kept(code: Code, needed: Collection[str]) -> list[Piece]:
    return [piece for piece in code.pieces if piece.name in needed]


def _imports(codes: Sequence[Code], needed: Collection[str]) -> str:
    used = {name for code in codes for piece in _kept(code, needed) for name in piece.uses}
    wanted = {what for code in codes for name, what in code.imports.items() if name in used}
    lines = []
    for source in sorted({source for source, _ in wanted}):
        names = sorted(name for origin, name in wanted if origin == source)
        if source:
            lines.append(f"from {source} import {', '.join(names)}")
        else:
            lines += [f"import {name}" for name in names]
    ours = [line for line in lines if line.startswith("from scenarios")]
    third = [line for line in lines if line == "import msgspec"]
    rest = [line for line in lines if line not in (*ours, *third)]
    return "\n\n".join("\n".join(group) for group in (rest, third, ours) if group)


def _constant(piece: Piece, setting: Setting) -> str | None:
    """A constant that is drawn for each world; None: it is none."""
    if piece.name == "CURRENCY":
        return f'CURRENCY = "{setting.trade.currency}"'
    value = setting.parameters.get(piece.name)
    return None if value is None else f"{piece.name} = {value:_}"


def _joined(pieces: Sequence[Piece], texts: Sequence[str]) -> str:
    found = ""
    for index, (piece, text) in enumerate(zip(pieces, texts, strict=True)):
        is_wide = index and (piece.is_block or pieces[index - 1].is_block)
        found += ("\n\n\n" if is_wide else "\n" if index else "") + text
    return found


def policy_of(setting: Setting, user: User) -> str:
    """The rules: of all trades, of the trade, of each module."""
    shown = shown_parameters(setting)
    sections = [
        f"## {setting.dressers[one.name].text(one.head.title)}\n\n"
        + setting.dressers[one.name].template(one.policy, shown)
        for one in setting.modules
    ]
    front = _GENERAL.format(
        business=setting.business,
        tone=setting.trade.tone,
        name=user.name,
        login=user.id,
        role=user.role,
        day=setting.clock[:10],
        currency=setting.trade.currency,
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
