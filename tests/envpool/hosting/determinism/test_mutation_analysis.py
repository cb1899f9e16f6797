"""The analysis of what functions may do to names, and the replacement of functools.lru_cache."""

import ast
import functools
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.hosting.determinism.lru_caches import lru_cache
from rehearsal_room.envpool.hosting.determinism.mutation_analysis import (
    EXPOSES,
    MUTATES,
    NO_EFFECT,
    Uses,
    uses_of,
)


def _uses_of(source: str) -> Uses:
    return uses_of(ast.parse(source))


@pytest.mark.parametrize(
    ("code", "effect"),
    [
        ("return n in X", NO_EFFECT),
        ("return X == n", NO_EFFECT),
        ("return len(X) + 1", NO_EFFECT),
        ("if X: return 1", NO_EFFECT),
        ("return 1 if not X else 2", NO_EFFECT),
        ("return f'{X}'", NO_EFFECT),
        ("return other[X]", NO_EFFECT),
        ("return X.index(n)", NO_EFFECT),
        ("return ', '.join(X)", NO_EFFECT),
        ("return query.filter(Item.status.in_(X))", NO_EFFECT),
        ("return n in X['a']", NO_EFFECT),
        ("return n in X.get('a')", NO_EFFECT),
        ("return X[n]", EXPOSES),
        ("return X[1:]", EXPOSES),
        ("return X.get(n)", EXPOSES),
        ("row = X[n][0]", EXPOSES),
        ("for row in X: print(row)", EXPOSES),
        ("return [row for row in X]", EXPOSES),
        ("return sorted(X)", EXPOSES),
        ("return X + [n]", EXPOSES),
        ("return {**X}", EXPOSES),
        ("return f(*X)", EXPOSES),
        ("return random.choice(X)", EXPOSES),
        ("return (X or [])[0]", EXPOSES),
        ("X[n] = 1", MUTATES),
        ("X[n]['a'] = 1", EXPOSES),
        ("del X[n]", MUTATES),
        ("X[n] += 1", MUTATES),
        ("X += [n]", MUTATES),
        ("X.append(n)", MUTATES),
        ("X.pop()", MUTATES),
        ("X.items().clear()", EXPOSES),
        ("add = X.append", MUTATES),
        ("return X", MUTATES),
        ("mine = X", MUTATES),
        ("return {'rows': X}", MUTATES),
        ("return [X]", MUTATES),
        ("return f(X)", MUTATES),
        ("return f(rows=X)", MUTATES),
        ("return X if n else []", MUTATES),
        ("(mine := X).append(n)", MUTATES),
        ("return lambda: X.append(n)", MUTATES),
        ("yield X", MUTATES),
    ],
)
def test_the_strongest_effect_of_a_function(code: str, effect: int) -> None:
    """Reads have no effect, passing on elements exposes, all else mutates; the strongest counts."""
    assert _uses_of(f"def f(n):\n    {code}").names["X"] == effect
    assert _uses_of(f"def g():\n    return len(X)\ndef f(n):\n    {code}").names["X"] == effect
    attribute = re.sub(r"\bX\b", "self.X", code)
    assert _uses_of(f"def f(self, n):\n    {attribute}").attributes["X"] == effect


def test_only_what_runs_in_a_call_counts() -> None:
    """Decorators, annotations and defaults run once, when the code is loaded; a default's lambda
    and a function within a class run in calls."""
    uses = _uses_of(
        "@a.register(lambda: b.clear())\n"
        "def f(x: c.pop() = d.pop(), *, y=lambda: e.pop()) -> g.pop():\n"
        "    return h.pop(lambda z=i.pop(): j.pop())\n"
        "class K:\n"
        "    l.pop()\n"
        "    async def m(self): n.pop()\n"
        "o.pop()\n"
    )
    assert set(uses.names) == {"e", "h", "i", "j", "n"}


def test_code_that_runs_once_does_not_count() -> None:
    """Code of the module and its classes, decorators and defaults run only while it is loaded."""
    uses = _uses_of("""
X.append(1)
class C:
    X[0] = 1
    @X.register
    def f(self, rows=X.copy()) -> X.pop():
        return Y
""")
    assert uses.names == {"Y": MUTATES}


def test_assignments_are_found() -> None:
    """Assigned names, attributes of classes and functions, and indirect assignments are found."""
    uses = _uses_of("""
def f(cls, x):
    global a, b
    nonlocal c
    cls.count = 1
    f.calls += 1
    del Store.items
    setattr(Config, "name", 1)
    globals()["x"] = 1
    os.environ["A"] = "b"
    app.state.n = 1
""")
    assert (uses.rebound, uses.nonlocals) == ({"a", "b"}, {"c"})
    assert uses.owners == {"f", "Store", "Config"}
    assert uses.sets_class_attributes and uses.uses_namespace
    assert uses.sets_environment and uses.uses_state
    plain = _uses_of("def f(item):\n    item.state = os.environ['A']\n    return item.state == 1")
    assert (plain.owners, plain.uses_state, plain.sets_environment) == ({"item"}, False, False)
    assert not plain.sets_class_attributes and not plain.uses_namespace


_KEYS = st.one_of(st.integers(0, 3), st.sampled_from([1.0, True, "1", None, (1,)]))
_CALLS = st.lists(st.one_of(st.tuples(_KEYS, st.booleans()), st.just("clear")), max_size=20)


@given(maxsize=st.sampled_from([None, 0, 1, 2, -1]), typed=st.booleans(), calls=_CALLS)
def test_the_cache_behaves_as_that_of_functools(
    maxsize: int | None, typed: bool, calls: list[Any]
) -> None:
    """Hits, misses, dropped entries and statistics equal those of functools.lru_cache."""

    def run(lru: Any) -> tuple[list[Any], Any]:
        seen: list[Any] = []

        def function(*args: Any, **kwargs: Any) -> int:
            """Doc."""
            seen.append((args, kwargs))
            return len(seen)

        cached = lru(maxsize=maxsize, typed=typed)(function)
        results: list[Any] = []
        for call in calls:
            if call == "clear":
                cached.cache_clear()
            else:
                key, named = call
                results.append(cached(key=key) if named else cached(key))
            results.append(tuple(cached.cache_info()))
        described = (cached.__name__, cached.__doc__, cached.cache_parameters())
        return results, (repr(seen), described, cached.__wrapped__ is function)

    assert run(lru_cache) == run(functools.lru_cache)


def test_the_cache_of_a_method() -> None:
    """A cached method is bound, also with a bare decorator; exceptions are not cached."""

    class Shop:
        num_computed = 0

        @lru_cache
        def price(self, item: int) -> int:
            self.num_computed += 1
            return 10 // item

    shop = Shop()
    assert [shop.price(2), shop.price(2), Shop.price(shop, 2), shop.num_computed] == [5, 5, 5, 1]
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            shop.price(0)
    assert shop.num_computed == 3
    with pytest.raises(TypeError, match="unhashable"):
        shop.price([])
    with pytest.raises(TypeError, match="Expected first argument"):
        lru_cache("many")
