"""What the functions of generated code may do to the names of their module, read from its text.

A constant that functions only look things up in needs no copy for each world. So for each name
(and, as their owners are not known, for each attribute) that functions use, this tells the most
that they do with it:

    rebound    the name itself gets another value: `global total; total += 1`
    touched    its object is changed, or handed to where it may be: `cache[key] = 1`, `add(cache)`
    opened     what it contains is handed out: `for row in rows`, `prices[name]`
    (nothing)  it is asked: `name in names`, `len(rows)`

Names are not told apart by scope: a local of the same name counts for the global. Mutation in
ways that hide the name (`gc`, frames, `exec`) is not seen; `uses_namespace` tells of the common
ones.
"""

import ast
from collections.abc import Iterator

import msgspec

_ASKING = {"count", "index", "isdisjoint", "issubset", "issuperset", "startswith", "endswith"}
_OPENING = {
    *("get", "keys", "values", "items", "copy", "union", "intersection", "difference"),
    "symmetric_difference",
}
_ASKERS = {"len", "str", "repr", "sum", "any", "all", "isinstance", "bool", "int", "float", "print"}
_OPENERS = {
    *("sorted", "list", "tuple", "set", "dict", "frozenset", "enumerate", "zip", "reversed"),
    *("min", "max", "iter", "map", "filter"),
}
_ASKING_CALLS = {"dumps", "join", "in_", "notin_", "not_in", "isEnabledFor"}  # of other objects
_OPENING_CALLS = {"choice", "choices", "sample"}
_NAMESPACE = {"globals", "exec", "eval", "__import__", "import_module"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

NOTHING, OPENED, TOUCHED = 0, 1, 2


class Uses(msgspec.Struct):
    """What functions do with names, at most."""

    rebound: set[str] = msgspec.field(default_factory=set)
    nonlocals: set[str] = msgspec.field(default_factory=set)  # rebound in an outer function
    names: dict[str, int] = msgspec.field(default_factory=dict)  # name -> NOTHING … TOUCHED
    attributes: dict[str, int] = msgspec.field(default_factory=dict)
    owners: set[str] = msgspec.field(default_factory=set)  # names with attributes that are assigned
    changed: set[str] = msgspec.field(default_factory=set)  # attributes that are assigned
    changers: set[str] = msgspec.field(default_factory=set)  # classes that assign self's own
    sets_any_attribute: bool = False  # by setattr, or through __dict__
    sets_class_attributes: bool = False  # of `cls`, `type(x)`, `x.__class__`, or by setattr
    uses_namespace: bool = False  # through globals(), exec and the like
    sets_environment: bool = False  # of the process: os.environ
    uses_state: bool = False  # of an application: `app.state.name`


def uses_of(source: str) -> Uses:
    """What the functions of a module's text do with names."""
    reader = _Reader()
    reader.read(ast.parse(source))
    return reader.uses


class _Reader:
    def __init__(self) -> None:
        self.uses = Uses()
        self._parents: dict[ast.AST, ast.AST] = {}

    def read(self, tree: ast.Module) -> None:
        for parent in ast.walk(tree):
            for child in ast.iter_child_nodes(parent):
                self._parents[child] = parent
        for node in _in_functions(tree):
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        uses = self.uses
        match node:
            case ast.Global(names=names):
                uses.rebound.update(names)
            case ast.Nonlocal(names=names):
                uses.nonlocals.update(names)
            case ast.Name(id=name, ctx=ast.Load()):
                if name in _NAMESPACE and isinstance(self._parents.get(node), ast.Call):
                    uses.uses_namespace = True
                uses.names[name] = max(uses.names.get(name, NOTHING), self._how(node))
            case ast.Name(id=name, ctx=ast.Store()):
                if isinstance(self._parents.get(node), ast.AugAssign):  # `rows += [1]` in place
                    uses.names[name] = TOUCHED
            case ast.Attribute(value=owner, attr=name, ctx=ast.Load()):
                uses.attributes[name] = max(uses.attributes.get(name, NOTHING), self._how(node))
                if name == "state" and _is_entered(self._parents[node]):
                    uses.uses_state = True
                if name in ("__dict__", "__setattr__", "__setstate__"):
                    uses.sets_any_attribute = True
                if name == "environ" and self._how(node) == TOUCHED:
                    uses.sets_environment = True
                if name == "modules" and isinstance(owner, ast.Name) and owner.id == "sys":
                    uses.uses_namespace = True
            case ast.Attribute(value=owner, attr=name):
                if isinstance(self._parents.get(node), ast.AugAssign):
                    uses.attributes[name] = TOUCHED
                self._assigned(owner)
                self._changed(node, owner, name)
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[owner, *_]):
                uses.sets_any_attribute = True
                self._assigned(owner)

    def _assigned(self, owner: ast.AST) -> None:
        """An attribute of this is assigned or deleted."""
        match owner:
            case (
                ast.Name(id="cls")
                | ast.Attribute(attr="__class__")
                | ast.Call(func=ast.Name(id="type"))
            ):
                self.uses.sets_class_attributes = True
            case ast.Name(id=name):
                self.uses.owners.add(name)

    def _changed(self, node: ast.AST, owner: ast.AST, name: str) -> None:
        """An attribute is assigned; by __init__, which does it once, is no change."""
        method = self._around(node, _FUNCTIONS)
        home = None if method is None else self._around(method, (ast.ClassDef,))
        if isinstance(home, ast.ClassDef) and isinstance(owner, ast.Name) and owner.id == "self":
            if getattr(method, "name", "") == "__init__":
                return
            self.uses.changers.add(home.name)
        self.uses.changed.add(name)

    def _around(self, node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> ast.AST | None:
        """The innermost of these kinds that a node stands in."""
        parent = self._parents.get(node)
        while parent is not None and not isinstance(parent, kinds):
            parent = self._parents.get(parent)
        return parent

    def _how(self, node: ast.AST) -> int:
        """What is done with the object that an expression gives."""
        parent = self._parents[node]
        match parent:
            case ast.Compare() | ast.FormattedValue() | ast.Expr() | ast.UnaryOp() | ast.Assert():
                return NOTHING
            case ast.If() | ast.While():
                return NOTHING
            case ast.IfExp(test=test) if test is node:
                return NOTHING
            case ast.BoolOp() | ast.IfExp():
                return self._how(parent)
            case ast.Subscript(value=value, ctx=ctx):
                if value is not node:
                    return NOTHING  # it is the key
                return self._opened(parent) if isinstance(ctx, ast.Load) else TOUCHED
            case ast.Attribute(attr=method):
                call = self._parents[parent]
                if not isinstance(call, ast.Call) or call.func is not parent:
                    return TOUCHED
                if method in _ASKING:
                    return NOTHING
                return self._opened(call) if method in _OPENING else TOUCHED
            case ast.Call(func=function) if function is not node:
                return _by_call(function)
            case ast.Starred() | ast.BinOp() | ast.comprehension() | ast.For() | ast.AsyncFor():
                return OPENED
            case ast.Dict(keys=keys, values=values):  # {**defaults} opens, {"a": rows} hands on
                return OPENED if keys[_position(values, node)] is None else TOUCHED
        return TOUCHED

    def _opened(self, node: ast.AST) -> int:
        """What is done to an object whose element, or a copy, this expression gives."""
        return OPENED if self._how(node) != NOTHING else NOTHING


def _is_entered(parent: ast.AST) -> bool:
    """Whether an attribute of an attribute is meant."""
    match parent:
        case ast.Attribute() | ast.Call(func=ast.Name(id="getattr" | "setattr" | "hasattr")):
            return True
    return False


def _by_call(function: ast.AST) -> int:
    match function:
        case ast.Name(id=name):
            return NOTHING if name in _ASKERS else OPENED if name in _OPENERS else TOUCHED
        case ast.Attribute(attr=name):
            if name in _ASKING_CALLS:
                return NOTHING
            return OPENED if name in _OPENING_CALLS else TOUCHED
    return TOUCHED


def _position(values: list[ast.expr], node: ast.AST) -> int:
    return next((n for n, value in enumerate(values) if value is node), 0)


def _in_functions(tree: ast.AST, inside: bool = False) -> Iterator[ast.AST]:
    """The nodes that run when a function is called; decorators, defaults and annotations of the
    module's own functions do not."""
    for child in ast.iter_child_nodes(tree):
        if inside:
            yield child
            yield from _in_functions(child, True)
        elif isinstance(child, _FUNCTIONS):
            for part in child.body if isinstance(child.body, list) else [child.body]:
                yield part
                yield from _in_functions(part, True)
            yield from _in_functions(child.args, False)
        else:
            yield from _in_functions(child, False)
