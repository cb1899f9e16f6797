"""PYTHON tests/suites/parity/vitabench/runner.py CHECKOUT DOMAIN LANGUAGE SAVED: VitaBench's own
command `vita.cli run`, in the interpreter that has the checkout's packages.

It imports nothing of this project. Two things are not upstream's: ids of orders contain a count of
the task's in place of the time (not with VITA_IDS=timed), and a task does not know the addresses of
those before it, as if each were a process of its own (with VITA_ADDRESSES=kept it does).
"""

import os
import sys
from typing import Any


class Count:
    """In place of `datetime` where ids of orders are made."""

    def __init__(self) -> None:
        self.number = 0

    def now(self) -> "Count":
        return self

    def timestamp(self) -> int:
        self.number += 1
        return self.number


def main(checkout: str, domain: str, language: str, saved: str) -> None:
    """Play all tasks of the domain."""
    sys.path.insert(0, f"{checkout}/src")
    os.chdir(checkout)
    from vita import cli, run
    from vita.data_model.tasks import Location
    from vita.environment import db

    count: Any = Count()
    if os.environ.get("VITA_IDS") != "timed":
        db.datetime = count
    clear = run._clear_global_state

    def cleared() -> None:
        clear()
        count.number = 0
        if os.environ.get("VITA_ADDRESSES") != "kept":
            Location.clear_thread_data()

    run._clear_global_state = cleared
    models = ["--agent-llm", "agent", "--user-llm", "customer", "--evaluator-llm", "judge"]
    where = ["--domain", domain, "--language", language, "--save-to", saved]
    sys.argv = ["vita", "run", *where, *models, "--log-level", "CRITICAL"]
    cli.main()


if __name__ == "__main__":
    main(*sys.argv[1:5])
