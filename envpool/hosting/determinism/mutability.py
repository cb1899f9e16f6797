"""Determine which values of a module its functions can change."""

from collections.abc import Mapping
from typing import Any

from rehearsal_room.envpool.hosting.determinism.mutation_analysis import (
    EXPOSES,
    MUTATES,
    NO_EFFECT,
    Uses,
)
from rehearsal_room.envpool.hosting.determinism.value_kinds import (
    attributes_of,
    contents_of,
    is_opaque,
    value_kind,
)


class Mutability:
    """The values of a module that its functions can change, by what they do with names."""

    def __init__(self, uses: Uses, module_name: str) -> None:
        self._uses = uses
        self._module_name = module_name

    def effect_on(self, name: str) -> int:
        """The strongest effect of functions on a name (see mutation_analysis)."""
        uses = self._uses
        return MUTATES if uses.uses_namespace else uses.names.get(name, NO_EFFECT)

    def effect_on_attribute(self, name: str) -> int:
        """The strongest effect of functions on attributes of this name."""
        uses = self._uses
        return MUTATES if uses.uses_namespace else uses.attributes.get(name, NO_EFFECT)

    def opaque_names(self, values: Mapping[str, Any]) -> set[str]:
        """The names of opaque values on which functions have an effect."""
        return {name for name, value in values.items() if self.effect_on(name) and is_opaque(value)}

    def can_be_changed(self, value: Any, effect: int) -> bool:
        """Whether functions that have this effect on a value can change it or a value in it."""
        kind = value_kind(value)
        if kind in ("atom", "stateless") or effect == NO_EFFECT:
            return False
        is_read = effect == EXPOSES and kind in ("container", "group")
        return not (is_read and self._is_flat(value))

    def can_change(self, value: Any) -> bool:
        """Whether an object's attributes can get other values."""
        uses, cls = self._uses, type(value)
        if uses.uses_namespace or uses.sets_any_attribute or not self._is_plain(cls):
            return True
        if any(base.__name__ in uses.changers for base in cls.__mro__):
            return True
        attributes = attributes_of(value)
        return not uses.changed.isdisjoint(attributes) or any(map(is_opaque, attributes.values()))

    def _is_flat(self, value: Any) -> bool:
        """Whether no element of a container or group can change.

        Example: {"a": (1, "b")} -> True; {"a": [1]} -> False
        """
        return all(map(self._is_immutable, contents_of(value, value_kind(value))))

    def _is_immutable(self, value: Any) -> bool:
        kind = value_kind(value)
        if kind == "group":
            return self._is_flat(value)
        if kind != "object":
            return kind in ("atom", "stateless")
        return not self.can_change(value) and all(
            self._is_immutable(inner)
            or (value_kind(inner) == "container" and self._stays_unchanged(name, inner))
            for name, inner in attributes_of(value).items()
        )

    def _stays_unchanged(self, name: str, value: Any) -> bool:
        """Whether functions do not change the container that is an attribute's value."""
        effect = self.effect_on_attribute(name)
        return effect == NO_EFFECT or (effect == EXPOSES and self._is_flat(value))

    def _is_plain(self, cls: type) -> bool:
        """Whether the module's text has all the code of a class and its bases."""
        plain = (self._module_name, "abc", "typing")
        return all(base.__module__ in plain for base in cls.__mro__[:-1])
