"""The names of AWM's scenarios: AWM joins its files by the normalised name."""

import re

_MAX_NAME = 120  # characters: the name becomes the name of a folder


def normalize_name(written: str) -> str:
    """A scenario's name as AWM's loaders compare it; empty when no character remains.

    Example: "E-Commerce  Lab (1)" -> "e_commerce_lab_1"
    """
    return re.sub(r"_+", "_", re.sub(r"[^a-z0-9_]", "_", written.lower())).strip("_")


def package_name(name: str) -> str:
    """The package's name for a normalised name: it begins with a letter and is unique.

    Example: "3d_printing_2" -> "w_3d_printing_2", and "w_3d_printing_2" -> "w_w_3d_printing_2"
    """
    return f"w_{name}" if re.match(r"(w_)*[0-9]", name) else name


def name_fault(written: str) -> str | None:
    """Why a name from a file cannot name a scenario; None: it can."""
    name = normalize_name(written)
    if not name:
        return f"{written[:_MAX_NAME]!r} has no letter and no digit of a-z, 0-9"
    if len(package_name(name)) > _MAX_NAME:
        return f"it is longer than {_MAX_NAME} characters"
    return None
