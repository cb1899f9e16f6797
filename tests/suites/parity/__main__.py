"""A benchmark's own runner against `rehearse eval`.

    python -m tests.suites.parity bfcl [--python PYTHON] [--runner PYTHON] [--share F] [--seed N]
                                       [--passes N] [--behaviour NAME]
    python -m tests.suites.parity tau2 --tau2 DIR [--tasks N] …
    python -m tests.suites.parity awm --awm-code DIR [--python PYTHON] [--openenv DIR] …

One deterministic fake model is played through both; verdict, requests, texts of calls and end state
of each entry are compared. A pass draws one behaviour for each entry; as many passes as there are
behaviours play each entry with each. `--behaviour known` draws from those that are known to differ.
The exit status is 1 where another entry differs.
"""

import argparse
import sys

from tests.suites.parity import awm_release, bfcl, tau2
from tests.suites.parity.behaviours import BEHAVIOURS, KNOWN


def main() -> int:
    """Compare; returns the exit status."""
    for name, other in (
        ("tau2", tau2.main),
        ("awm", awm_release.main),
    ):  # they take other arguments
        if sys.argv[1:2] == [name]:
            return other(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="parity")
    parser.add_argument("suite", choices=["bfcl"])
    parser.add_argument(
        "--python",
        default=".venv-suites/bin/python",
        help="interpreter with the suite's package (default: %(default)s)",
    )
    parser.add_argument("--runner", help="interpreter with what its runner needs (default: it)")
    parser.add_argument("--share", type=float, default=1.0, help="share of the entries")
    parser.add_argument("--seed", type=int, default=0, help="of the first pass")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--behaviour", choices=[*BEHAVIOURS, *KNOWN, "known"], default="")
    asked = parser.parse_args()
    different = 0
    for seed in range(asked.seed, asked.seed + asked.passes):
        different += bfcl.compare(
            asked.python,
            asked.runner or asked.python,
            share=asked.share,
            seed=seed,
            behaviour=asked.behaviour,
        )
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
