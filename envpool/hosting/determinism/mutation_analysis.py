"""Find out from its source text what a module's functions may do to the module's names.

A constant in which functions only look things up needs no copy for each world. So for each name
that functions use (and for each attribute, as their owners are not known), this finds the strongest
effect that functions have on it:

    rebound    the name gets another value: `global total; total += 1`
    MUTATES    its object is changed, or passed on so that it may be: `cache[key] = 1`, `add(cache)`
    EXPOSES    its elements are passed on: `for row in rows`, `prices[name]`
    NO_EFFECT  it is only read: `name in names`, `len(rows)`

Scopes are not distinguished: a local variable of the same name counts as the global. Mutation that
hides the name (`gc`, frames, `exec`) is not found; `uses_namespace` reports the common ways.
"""

import ast
from collections.abc import Iterator

import msgspec

_READING_METHODS = {
    *("count", "index", "isdisjoint", "issubset", "issuperset", "startswith", "endswith"),
}
_EXPOSING_METHODS = {
    *("get", "keys", "values", "items", "copy", "union", "intersection", "difference"),
    "symmetric_difference",
}
_READING_FUNCTIONS = {
    *("len", "str", "repr", "sum", "any", "all", "isinstance", "bool", "int", "float", "print"),
}
_EXPOSING_FUNCTIONS = {
    *("sorted", "list", "tuple", "set", "dict", "frozenset", "enumerate", "zip", "reversed"),
    *("min", "max", "iter", "map", "filter"),
}
_READING_CALLS = {"dumps", "join", "in_", "notin_", "not_in", "isEnabledFor"}  # of other objects
_EXPOSING_CALLS = {"choice", "choices", "sample"}
_NAMESPACE = {"globals", "exec", "eval", "__import__", "import_module"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_NOTED = {ast.Global, ast.Nonlocal, ast.Name, ast.Attribute, ast.Call}  # `_Reader._note`

NO_EFFECT, EXPOSES, MUTATES = 0, 1, 2


class Uses(msgspec.Struct):
    """The strongest effects of functions on names and attributes."""

    rebound: set[str] = msgspec.field(default_factory=set)
    nonlocals: set[str] = msgspec.field(default_factory=set)  # rebound in an outer function
    names: dict[str, int] = msgspec.field(default_factory=dict)  # name -> NO_EFFECT … MUTATES
    attributes: dict[str, int] = msgspec.field(default_factory=dict)
    owners: set[str] = msgspec.field(default_factory=set)  # names whose attributes are assigned
    changed: set[str] = msgspec.field(default_factory=set)  # attributes that are assigned
    changers: set[str] = msgspec.field(
        default_factory=set
    )  # classes that assign attributes of self
    sets_any_attribute: bool = False  # by setattr, or through __dict__
    sets_class_attributes: bool = False  # of `cls`, `type(x)`, `x.__class__`, or by setattr
    uses_namespace: bool = False  # through globals(), exec and the like
    sets_environment: bool = False  # of the process: os.environ
    uses_state: bool = False  # of an application: `app.state.name`


def uses_of(tree: ast.Module) -> Uses:
    """The effects that the functions of a module have on names; `tree` is its parsed text."""
    reader = _Reader()
    reader.read(tree)
    return reader.uses


class _Reader:
    def __init__(self) -> None:
        self.uses = Uses()
        self._parents: dict[ast.AST, ast.AST] = {}

    def read(self, tree: ast.Module) -> None:
        """Note each node that runs when a function is called. A node's parents are known when it
        is reached, and the order of other nodes does not matter."""
        pending: list[tuple[ast.AST, bool]] = [(tree, False)]  # a node, and whether it runs
        while pending:
            parent, runs = pending.pop()
            for child, child_runs in _children(parent, runs):
                self._parents[child] = parent
                if child_runs and type(child) in _NOTED:
                    self._note(child)
                pending.append((child, child_runs))

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
                uses.names[name] = max(uses.names.get(name, NO_EFFECT), self._effect(node))
            case ast.Name(id=name, ctx=ast.Store()):
                if isinstance(self._parents.get(node), ast.AugAssign):  # `rows += [1]` in place
                    uses.names[name] = MUTATES
            case ast.Attribute(value=owner, attr=name, ctx=ast.Load()):
                uses.attributes[name] = max(
                    uses.attributes.get(name, NO_EFFECT), self._effect(node)
                )
                if name == "state" and _is_part_of_access(self._parents[node]):
                    uses.uses_state = True
                if name in ("__dict__", "__setattr__", "__setstate__"):
                    uses.sets_any_attribute = True
                if name == "environ" and self._effect(node) == MUTATES:
                    uses.sets_environment = True
                if name == "modules" and isinstance(owner, ast.Name) and owner.id == "sys":
                    uses.uses_namespace = True
            case ast.Attribute(value=owner, attr=name):
                if isinstance(self._parents.get(node), ast.AugAssign):
                    uses.attributes[name] = MUTATES
                self._note_assigned_owner(owner)
                self._note_change(node, owner, name)
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[owner, *_]):
                uses.sets_any_attribute = True
                self._note_assigned_owner(owner)

    def _note_assigned_owner(self, owner: ast.AST) -> None:
        """Note an object of which an attribute is assigned or deleted."""
        match owner:
            case (
                ast.Name(id="cls")
                | ast.Attribute(attr="__class__")
                | ast.Call(func=ast.Name(id="type"))
            ):
                self.uses.sets_class_attributes = True
            case ast.Name(id=name):
                self.uses.owners.add(name)

    def _note_change(self, node: ast.AST, owner: ast.AST, name: str) -> None:
        """Note an assigned attribute, except of self in __init__, which happens only once."""
        method = self._enclosing(node, _FUNCTIONS)
        owner_class = None if method is None else self._enclosing(method, (ast.ClassDef,))
        if (
            isinstance(owner_class, ast.ClassDef)
            and isinstance(owner, ast.Name)
            and owner.id == "self"
        ):
            if getattr(method, "name", "") == "__init__":
                return
            self.uses.changers.add(owner_class.name)
        self.uses.changed.add(name)

    def _enclosing(self, node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> ast.AST | None:
        """The innermost node of these kinds around a node."""
        parent = self._parents.get(node)
        while parent is not None and not isinstance(parent, kinds):
            parent = self._parents.get(parent)
        return parent

    def _effect(self, node: ast.AST) -> int:
        """The effect that its surroundings have on the value of an expression."""
        parent = self._parents[node]
        match parent:
            case ast.Compare() | ast.FormattedValue() | ast.Expr() | ast.UnaryOp() | ast.Assert():
                return NO_EFFECT
            case ast.If() | ast.While():
                return NO_EFFECT
            case ast.IfExp(test=test) if test is node:
                return NO_EFFECT
            case ast.BoolOp() | ast.IfExp():
                return self._effect(parent)
            case ast.Subscript(value=value, ctx=ctx):
                if value is not node:
                    return NO_EFFECT  # the node is the key
                return self._effect_on_element(parent) if isinstance(ctx, ast.Load) else MUTATES
            case ast.Attribute(attr=method):
                call = self._parents[parent]
                if not isinstance(call, ast.Call) or call.func is not parent:
                    return MUTATES
                if method in _READING_METHODS:
                    return NO_EFFECT
                return self._effect_on_element(call) if method in _EXPOSING_METHODS else MUTATES
            case ast.Call(func=function) if function is not node:
                return _effect_of_call(function)
            case ast.Starred() | ast.BinOp() | ast.comprehension() | ast.For() | ast.AsyncFor():
                return EXPOSES
            case ast.Dict(keys=keys, values=values):  # {**defaults} exposes, {"a": rows} passes on
                return EXPOSES if keys[_index(values, node)] is None else MUTATES
        return MUTATES

    def _effect_on_element(self, node: ast.AST) -> int:
        """The effect on an object of which this expression gives an element or a copy."""
        return EXPOSES if self._effect(node) != NO_EFFECT else NO_EFFECT


def _is_part_of_access(parent: ast.AST) -> bool:
    """Whether an attribute is accessed to access an attribute of its value."""
    match parent:
        case ast.Attribute() | ast.Call(func=ast.Name(id="getattr" | "setattr" | "hasattr")):
            return True
    return False


def _effect_of_call(function: ast.AST) -> int:
    match function:
        case ast.Name(id=name):
            if name in _READING_FUNCTIONS:
                return NO_EFFECT
            return EXPOSES if name in _EXPOSING_FUNCTIONS else MUTATES
        case ast.Attribute(attr=name):
            if name in _READING_CALLS:
                return NO_EFFECT
            return EXPOSES if name in _EXPOSING_CALLS else MUTATES
    return MUTATES


def _index(values: list[ast.expr], node: ast.AST) -> int:
    return next((n for n, value in enumerate(values) if value is node), 0)


def _children(node: ast.AST, runs: bool) -> Iterator[tuple[ast.AST, bool]]:
    """The nodes directly in a node, each with whether it runs when a function is called; `runs`:
    the node does.

    Of the module's own functions that is the body. Decorators and annotations do not belong to
    them, and defaults only as far as they have functions in them (lambdas).
    """
    is_outer = not runs and isinstance(node, _FUNCTIONS)
    for name in node._fields:
        if is_outer and name not in ("body", "args"):
            continue
        found = getattr(node, name, None)
        for child in found if isinstance(found, list) else (found,):
            if isinstance(child, ast.AST) and child._fields:  # without: Load, Add and the like
                yield child, runs or (is_outer and name == "body")
