"""The report of `rehearse doctor` for people."""

from rich.console import Console
from rich.table import Table

from rehearsal_room.doctor.report import DoctorReport, SandboxReport
from rehearsal_room.doctor.requirements import Installed
from rehearsal_room.scenarios import distribution


def render_doctor(report: DoctorReport, console: Console) -> None:
    """Print what is installed, the sandbox, and what is missing with the command for it."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(distribution.NAME, f"{report.version} in {report.folder}")
    table.add_row("python", f"{report.python}, {report.system}")
    table.add_row("core", _part(report.core, "; ".join(report.faults)))
    for name, extra in report.extras.items():
        is_absent = not extra.versions or extra.faults
        table.add_row(f"[{name}]", _part(extra, "; ".join(extra.faults) if is_absent else ""))
    for index, line in enumerate(_sandbox(report.sandbox)):
        table.add_row("" if index else "sandbox", line)
    console.print(table)
    if not report.missing:
        console.print("\nnothing is missing")
        return
    console.print("\nmissing, for what, and how to get it")
    for each in report.missing:
        console.print(f"- {each.what}: {each.purpose}", soft_wrap=True)
        console.print(f"  {each.how}", soft_wrap=True)


def _part(part: Installed, fault: str) -> str:
    """The packages of the core or of an extra with their versions, or what is wrong."""
    if fault:
        return f"incomplete: {fault}" if part.versions else "not installed"
    return ", ".join(f"{name} {version}" for name, version in part.versions.items())


def _sandbox(sandbox: SandboxReport) -> list[str]:
    if not sandbox.level:
        return [f"none: {'; '.join(sandbox.why_not_more)}"]
    works = "works" if sandbox.keeps_every_promise else "refuses to start"
    lines = [f"{sandbox.level}; --sandbox required {works} here"]
    for refused, text in ((True, "refused"), (False, "NOT refused")):
        acts = [act for act, was_refused in sandbox.refused.items() if was_refused == refused]
        if acts:
            lines.append(f"tried and {text}: {', '.join(acts)}")
    lines += [f"not better because {reason}" for reason in sandbox.why_not_more]
    return lines
