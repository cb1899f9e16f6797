"""Printing the report of a reliability study."""

from collections.abc import Iterable, Mapping

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.core.terminal_text import printable, shorten
from rehearsal_room.harness.outcomes.bootstrap import Figure
from rehearsal_room.judge.reliability.types import Cost, LabelComparison, StudyReport

_MAX_LISTED = 10


def render(report: StudyReport, console: Console) -> None:
    """Print the report, in 80 columns or more."""
    console.print(Text(_headline(report), "bold"))
    if report.stopped:
        console.print(Text(printable(report.stopped), "yellow"))
    console.print()
    console.print(_figures(report))
    console.print(
        Text(
            "\nAWM's authors report of their own judge (GPT-5.1, 100 trajectories, 5 judgings each;"
            " arXiv:2602.10090): pairwise agreement 95.5% on completed or not, reward flip rate"
            " 9.2%. Other episodes and another judge: a rough reference only.",
            "dim",
        )
    )
    if report.code_agreement is not None:
        console.print(_confusion("code", report.code_agreement.confusion))
    if report.code_by_kind:
        console.print(_by_kind(report.code_by_kind))
    if report.human is not None:
        console.print(_confusion("people", report.human.confusion))
    if report.rewording_flips or report.injection_flips:
        console.print(_flips(report))
    _listed("judgings of one episode that differ", report.disagreements, console)
    _listed("labels that differ from the code's", report.against_code, console)
    _unjudged(report, console)
    console.print(Text(f"\n{_cost(report.cost)}"))


def _headline(report: StudyReport) -> str:
    """The study in one sentence."""
    judge = printable(report.judge) or "no judge"
    sample = f"{judge}: {_episodes(report.episodes)}, each judged {report.repeats}x."
    agreement = report.pairwise_agreement.binary.value
    if agreement is None:
        return f"{sample} No episode was judged twice, so agreement is not known."
    found = f"{sample} Two judgings agree on completed or not in {agreement:.1%} of pairs"
    code = report.code_agreement
    if code is None or code.agreement.binary.value is None:
        return f"{found}."
    return f"{found}; one agrees with code in {code.agreement.binary.value:.1%}."


def _figures(report: StudyReport) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("figure", min_width=23)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("95% interval", no_wrap=True)
    table.add_column("how to read it", style="dim")
    pairs, human = report.pairwise_agreement, report.human
    rows = [
        ("agreement, completed?", pairs.binary, "pairs of judgings"),
        ("agreement, four labels", pairs.four_way, "pairs, the same label"),
        ("reward flip rate", report.reward_flip_rate, "episodes whose rewards vary"),
        ("reward flips in pairs", report.reward_pair_flip_rate, "pairs with other rewards"),
        ("flip probability", report.flip_probability, "of one judging, completed?"),
    ]
    coefficients = [
        ("alpha, completed?", report.krippendorff_alpha.binary, "1: perfect, 0: chance"),
        ("alpha, four labels", report.krippendorff_alpha.four_way, "Krippendorff's, nominal"),
    ]
    for other, found in (("code", report.code_agreement), ("people", human)):
        if found is not None:
            of = f"judgings of {_episodes(found.episodes)}"
            rows.append((f"with {other}, completed?", found.agreement.binary, of))
            rows.append(
                (f"with {other}, four labels", found.agreement.four_way, "judgings, the same label")
            )
            coefficients.append(
                (f"kappa with {other}", found.kappa.binary, "beyond chance, Cohen's")
            )
    for other, j in report.j_against.items():
        for name, one, reading in (
            (f"J against {other}", j.j, f"TPR - FPR; the unit is the {j.unit}"),
            ("  right work accepted", j.tpr, "TPR: of what is completed"),
            ("  wrong work accepted", j.fpr, "FPR: of what is not"),
        ):
            coefficients.append((name, Figure(one.value, one.lower, one.upper), reading))
    for name, model in report.models.items():
        rows.append(
            (f"{name}, completed?", model.pairwise_agreement.binary, "its own label, pairs")
        )
        if model.code_agreement is not None:
            with_code = model.code_agreement.agreement
            rows.append((f"{name} with code", with_code.four_way, "its own label, four labels"))
    if human is not None and human.labellers > 1:
        among = f"{human.labellers} labellers, completed?"
        coefficients.append(("alpha among people", human.between.binary, among))
    for name, estimate, reading in rows:
        table.add_row(name, *_cells_of(estimate, share=True), reading)
    for name, estimate, reading in coefficients:
        table.add_row(name, *_cells_of(estimate, share=False), reading)
    return table


def _cells_of(found: Figure, *, share: bool) -> tuple[str, str]:
    """Example: Figure(0.955, 0.93, 0.974) -> ("95.5%", "93.0 to 97.4%")"""
    if found.value is None:
        return "-", "not defined"
    value = f"{found.value:.1%}" if share else f"{found.value:.3f}"
    if found.lower is None or found.upper is None:
        return value, "unknown"
    if share:
        return value, f"{100 * found.lower:.1f} to {found.upper:.1%}"
    return value, f"{found.lower:.3f} to {found.upper:.3f}"


def _confusion(other: str, confusion: Mapping[Label, Mapping[Label, int]]) -> RenderableType:
    """Judgings by the label of another source (rows) and of the judge (columns)."""
    title = Text(f"\nlabels of {other} (rows)", "bold")
    title.append(" against the judge's (columns), in judgings", "dim")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for label in Label:
        table.add_column(label.replace("_", "\n"), justify="right", header_style="dim")
    for label, counts in confusion.items():
        if any(counts.values()):
            cells = (_cell(counts[column], column is label) for column in Label)
            table.add_row(label, *cells)
    return Group(title, table)


def _by_kind(found: Mapping[str, LabelComparison]) -> RenderableType:
    """Agreement with code by what went wrong."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for name in ("episodes", "completed?", "four labels"):
        table.add_column(name, justify="right")
    for kind, one in found.items():
        shares = (one.agreement.binary.value, one.agreement.four_way.value)
        cells = ("·" if share is None else f"{share:.0%}" for share in shares)
        table.add_row(kind.replace("_", " "), f"{one.episodes:,}", *cells)
    return Group(Text("\nagreement with code by what went wrong", "bold"), table)


def _cell(count: int, agrees: bool) -> Text:
    return Text(f"{count:,}", "dim" if not count else "green" if agrees else "yellow")


def _flips(report: StudyReport) -> RenderableType:
    """The effect of other wordings on labels, beside that of judging a second time."""
    title = Text("\nlabels that changed", "bold")
    title.append(" against most judgings of the episode", "dim")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("how it was shown", header_style="dim", overflow="fold")
    for name in ("episodes", "changed", "95% interval", "to completed", "of"):
        table.add_column(name, justify="right", header_style="dim")
    rows = {
        "unchanged": report.repeat_flips,
        **{f"reworded: {name}": flips for name, flips in report.rewording_flips.items()},
        **{f"injected: {name}": flips for name, flips in report.injection_flips.items()},
    }
    for model, figures in report.models.items():
        for name, flips in (figures.rewording_flips | figures.injection_flips).items():
            rows[f"{model} itself: {name}"] = flips
    for name, flips in rows.items():
        value, interval = _cells_of(flips.flipped, share=True)
        moved, _ = _cells_of(flips.to_completed, share=True)
        others = f"{flips.not_completed:,}"
        table.add_row(Text(printable(name)), f"{flips.episodes:,}", value, interval, moved, others)
    return Group(title, table)


def _listed(title: str, episodes: Iterable[str], console: Console) -> None:
    names = [printable(episode) for episode in episodes]
    if not names:
        return
    more = f" and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else ""
    console.print(Text(f"\n{title}: {_episodes(len(names))}", "bold"))
    console.print(Padding(Text(", ".join(names[:_MAX_LISTED]) + more), (0, 0, 0, 2)))


def _unjudged(report: StudyReport, console: Console) -> None:
    head = f"{report.unjudged:,} of {report.judgings:,} judgings gave no verdict"
    _reasons(head, report.unjudged_reasons, console)
    left_out = sum(report.left_out.values())
    head = f"in addition, {_episodes(left_out)} could not be shown to a judge"
    _reasons(head, report.left_out, console)


def _reasons(head: str, reasons: Mapping[str, int], console: Console) -> None:
    if not reasons:
        return
    console.print(Text(f"\n{head}", "bold yellow"))
    for why, count in list(reasons.items())[:_MAX_LISTED]:
        console.print(Padding(Text(f"{count:,}  {shorten(why, 200)}"), (0, 0, 0, 2)))


def _cost(cost: Cost) -> str:
    tokens = f"{cost.prompt_tokens:,} + {cost.completion_tokens:,} tokens"
    text = f"{cost.requests:,} requests, {tokens}, {cost.seconds:.1f} s, "
    if cost.cost_usd is None:
        return f"{text}cost not known (no price)"
    text += f"{cost.cost_usd:.4f} USD"
    if cost.per_1024_episodes_usd is None:
        return text
    return f"{text}; judging 1,024 episodes once: {cost.per_1024_episodes_usd:.2f} USD"


def _episodes(number: int) -> str:
    return f"{number:,} episode{'' if number == 1 else 's'}"
