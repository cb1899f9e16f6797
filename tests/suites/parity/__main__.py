"""A benchmark's own runner against `rehearse eval`.

    python -m tests.suites.parity bfcl [--python PYTHON] [--runner PYTHON] [--share F] [--seed N]
                                       [--passes N] [--behaviour NAME] [--model-url URL]
    python -m tests.suites.parity agentdojo [--category NAME] …
    python -m tests.suites.parity tau2 --tau2 DIR [--tasks N] …
    python -m tests.suites.parity vitabench --vita DIR --python PYTHON [--tasks N] …
    python -m tests.suites.parity toolsandbox --checkout DIR --python PYTHON …
    python -m tests.suites.parity mcp_universe [--python PYTHON] [--files PROGRAM] …
    python -m tests.suites.parity enterpriseops --gym DIR --python PYTHON …
    python -m tests.suites.parity bfcl_v4 [--python PYTHON] [--runner PYTHON] [--seed N] …
    python -m tests.suites.parity awm --awm-code DIR [--python PYTHON] [--openenv DIR] …

One deterministic fake model is played through both; verdict, requests, texts of calls and end state
of each entry are compared. A pass draws one behaviour for each entry; as many passes as there are
behaviours play each entry with each. `--behaviour known` draws from those that are known to differ.
With `--model-url`, a pretrained model behind that server plays 100 entries of bfcl instead.
The exit status is 1 where another entry differs.
"""

import argparse
import sys

from tests.suites.parity import awm_release, bfcl, dojo, tau2
from tests.suites.parity.behaviours import BEHAVIOURS, KNOWN
from tests.suites.parity.bfcl_v4 import compare as bfcl_v4
from tests.suites.parity.enterprise import compare as enterprise
from tests.suites.parity.mcp_universe import compare as universe
from tests.suites.parity.toolsandbox import compare as toolsandbox
from tests.suites.parity.vitabench.compare import main as compare_vitabench

_PYTHONS = {"bfcl": ".venv-suites/bin/python", "agentdojo": ".venv-suites/agentdojo/bin/python"}


def main() -> int:
    """Compare; returns the exit status."""
    for name, other in (
        ("tau2", tau2.main),
        ("enterpriseops", enterprise.main),
        ("bfcl_v4", bfcl_v4.main),
        ("awm", awm_release.main),
        ("vitabench", compare_vitabench),
        ("toolsandbox", toolsandbox.main),
        ("mcp_universe", universe.main),
    ):  # they take other arguments
        if sys.argv[1:2] == [name]:
            return other(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="parity")
    parser.add_argument("suite", choices=[*_PYTHONS])
    parser.add_argument(
        "--python", help="interpreter with the suite's package (default: one in .venv-suites)"
    )
    parser.add_argument("--runner", help="interpreter with what its runner needs (default: it)")
    parser.add_argument("--share", type=float, default=1.0, help="share of the entries")
    parser.add_argument("--seed", type=int, default=0, help="of the first pass")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--behaviour", default="")
    parser.add_argument("--category", action="append", default=[], help="of agentdojo")
    parser.add_argument(
        "--model-url", default="", help="bfcl: a server, ending in /v1, of a pretrained model m"
    )
    asked = parser.parse_args()
    is_dojo = asked.suite == "agentdojo"
    known = dojo.BEHAVIOURS_AND_KNOWN if is_dojo else {**BEHAVIOURS, **KNOWN}
    if asked.behaviour not in ("", "known", *known):
        parser.error(f"--behaviour: no {asked.behaviour!r}; known, or one of {', '.join(known)}")
    python = asked.python or _PYTHONS[asked.suite]
    different = 0
    for seed in range(asked.seed, asked.seed + asked.passes):
        if is_dojo:
            different += dojo.compare(
                python,
                share=asked.share,
                seed=seed,
                behaviour=asked.behaviour,
                categories=asked.category,
            )
            continue
        different += bfcl.compare(
            python,
            asked.runner or python,
            share=asked.share,
            seed=seed,
            behaviour=asked.behaviour,
            model_url=asked.model_url,
        )
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
