"""The command `doctor`: what is installed, which sandbox level holds, and what is missing."""

import sys

import click

from harness.commands.options import JSON, console_of, write_json
from harness.doctor.render import render_doctor
from harness.doctor.report import examine


@click.command("doctor")
@JSON
def doctor_command(json_file: str | None) -> None:
    """Show what is installed, which sandbox level holds here, and how to get what is missing.

    The exit status is 1 when the core itself is broken; missing extras and programs are reported.
    """
    report = examine()
    render_doctor(report, console_of(json_file))
    write_json(report, json_file)
    if report.faults:
        sys.exit(1)
