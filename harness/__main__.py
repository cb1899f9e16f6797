"""`python -m harness` is the command `rehearse`."""

from harness.cli import main

main()
