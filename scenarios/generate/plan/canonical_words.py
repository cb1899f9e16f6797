"""Every canonical word with its plural and its module.

`python -m rehearsal_room.scenarios.generate.plan.canonical_words` prints them.
"""

import sys

from rehearsal_room.scenarios.generate.plan.business_modules import module, module_names


def canonical_words() -> dict[str, tuple[str, str]]:
    """Singular -> (plural, the module that declares the word)."""
    return {
        singular: (plural, name)
        for name in module_names()
        for singular, plural in module(name).head.words.items()
    }


if __name__ == "__main__":
    for singular, (plural, owner) in canonical_words().items():
        sys.stdout.write(f"{owner:14} {singular:14} {plural}\n")
