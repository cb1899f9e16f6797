"""The command `doctor`: what is installed, which sandbox level holds, and what is missing."""

import sys

import click

from rehearsal_room.cli.core.options import JSON, console_of, write_json
from rehearsal_room.doctor.render import render_doctor
from rehearsal_room.doctor.report import examine


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
