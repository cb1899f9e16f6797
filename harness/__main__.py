"""`python -m harness` runs the command `rehearse`."""

from harness.cli import main

main()
