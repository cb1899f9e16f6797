"""The figures of a reliability study, from its verdicts."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import fsum

import msgspec

from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.core.mistakes import Diagnosis
from rehearsal_room.harness.outcomes.bootstrap import RESAMPLES, Bootstrap, Figure
from rehearsal_room.judge.code.code_judge import NAME
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.reliability.statistics import (
    Pairs,
    Statistic,
    Unit,
    agreement,
    alpha,
    binary,
    confusion,
    flip_probability,
    flip_rate,
    kappa,
    pairwise_agreement,
    units_of,
)
from rehearsal_room.judge.reliability.types import (
    Cost,
    Flips,
    HumanComparison,
    LabelComparison,
    ModelFigures,
    Scales,
    StudyReport,
)
from rehearsal_room.judge.statistics.youden import MANY_WORLDS, Youden, youden


class EpisodeVerdicts(msgspec.Struct, frozen=True):
    """All verdicts of the study on one episode."""

    case: Case
    repeats: tuple[Judged, ...]
    reworded: dict[str, Judged]  # by the perturbation's name; those that change this case
    injected: dict[str, Judged]

    @property
    def labels(self) -> list[Label]:
        """The repeats' labels, without those that failed."""
        return [judged.label for judged in self.repeats if judged.label is not None]

    @property
    def base(self) -> Label | None:
        """The label of most repeats; None: a tie, or no label."""
        return majority_label(self.labels)

    def verdicts(self) -> Iterable[Judged]:
        """All of them."""
        yield from self.repeats
        yield from self.reworded.values()
        yield from self.injected.values()


class StudyScope(msgspec.Struct, frozen=True):
    """The plan of the study."""

    repeats: int
    rewordings: tuple[str, ...]
    injections: tuple[str, ...]
    # Episode -> labeller -> label; None: no labels were given.
    humans: Mapping[str, Mapping[str, Label]] | None
    left_out: Sequence[Judged]  # of episodes of which no case could be made
    seed: int
    num_resamples: int = RESAMPLES
    diagnoses: Mapping[str, Diagnosis] = {}  # by episode


def majority_label(labels: Iterable[Label]) -> Label | None:
    """The most frequent label; None for a tie, or without labels.

    Example: [completed, agent_error, completed] -> completed
    """
    ranking = Counter(labels).most_common(2)
    if not ranking or (len(ranking) == 2 and ranking[0][1] == ranking[1][1]):
        return None
    return ranking[0][0]


def report_of(
    answers: Sequence[EpisodeVerdicts], scope: StudyScope, *, seconds: float
) -> StudyReport:
    """The report. With 100 episodes it takes about a second, mostly for the intervals."""
    bootstrap = partial(Bootstrap, seed=scope.seed, num_resamples=scope.num_resamples)
    labels = bootstrap(units_of([[one.label for one in each.repeats] for each in answers]))
    rewards = bootstrap(units_of([[one.reward for one in each.repeats] for each in answers]))
    verdicts = [judged for each in answers for judged in each.verdicts()]
    reasons = Counter(_why(judged) for judged in verdicts if judged.label is None)
    agreed = _scales(labels.share, pairwise_agreement)
    first = next(iter(verdicts), None)
    return StudyReport(
        judge=first.judge if first is not None else "",
        rubric=next((judged.rubric for judged in verdicts if judged.rubric), ""),
        episodes=len(answers),
        repeats=scope.repeats,
        judgings=len(verdicts),
        unjudged=reasons.total(),
        unjudged_reasons=dict(reasons.most_common()),
        left_out=dict(Counter(_why(judged) for judged in scope.left_out).most_common()),
        stopped=_stopped(reasons, len(verdicts)),
        pairwise_agreement=agreed,
        reward_flip_rate=rewards.share(flip_rate),
        reward_pair_flip_rate=_complement(rewards.share(pairwise_agreement)),
        flip_probability=_apply_decreasing(agreed.binary, flip_probability),
        krippendorff_alpha=_scales(labels.of, alpha),
        code_agreement=_against(answers, _code_labels(answers), bootstrap),
        code_by_kind=_by_kind(answers, scope, bootstrap),
        human=_against_people(answers, scope, bootstrap),
        repeat_flips=_flips(map(_each_against_others, answers), bootstrap),
        rewording_flips=_flips_by(scope.rewordings, answers, bootstrap, lambda one: one.reworded),
        injection_flips=_flips_by(scope.injections, answers, bootstrap, lambda one: one.injected),
        j_against=_j_against(answers, scope),
        disagreements=_names(answers, lambda each: len(set(each.labels)) > 1),
        against_code=_names(answers, _differs_from_code),
        cost=_cost(verdicts, seconds),
        models={
            name: _model_figures([_own_labels(name, each) for each in answers], scope, bootstrap)
            for name in _models(verdicts)
        },
    )


def _models(verdicts: Iterable[Judged]) -> list[str]:
    """The models whose judgements are not the verdicts themselves."""
    for judged in verdicts:
        if judged.judgements and (
            len(judged.judgements) > 1 or not judged.judge.startswith("llm:")
        ):
            return [judgement.model for judgement in judged.judgements]
    return []


def _own_labels(model: str, each: EpisodeVerdicts) -> EpisodeVerdicts:
    """The verdicts with a model's own labels instead of theirs."""

    def own(judged: Judged) -> Judged:
        label = next((one.label for one in judged.judgements if one.model == model), None)
        return msgspec.structs.replace(judged, label=label)

    return EpisodeVerdicts(
        each.case,
        tuple(map(own, each.repeats)),
        {name: own(judged) for name, judged in each.reworded.items()},
        {name: own(judged) for name, judged in each.injected.items()},
    )


def _model_figures(
    answers: Sequence[EpisodeVerdicts], scope: StudyScope, make: "_Make"
) -> ModelFigures:
    labels = make(units_of([[one.label for one in each.repeats] for each in answers]))
    agreed = _scales(labels.share, pairwise_agreement)
    return ModelFigures(
        pairwise_agreement=agreed,
        flip_probability=_apply_decreasing(agreed.binary, flip_probability),
        krippendorff_alpha=_scales(labels.of, alpha),
        code_agreement=_against(answers, _code_labels(answers), make),
        rewording_flips=_flips_by(scope.rewordings, answers, make, lambda one: one.reworded),
        injection_flips=_flips_by(scope.injections, answers, make, lambda one: one.injected),
    )


def _flips_by(
    names: Iterable[str],
    answers: Sequence[EpisodeVerdicts],
    make: "_Make",
    shown: Callable[[EpisodeVerdicts], Mapping[str, Judged]],
) -> dict[str, Flips]:
    """The effect of each perturbation, by its name."""
    return {
        name: _flips([_against_base(one, shown(one).get(name)) for one in answers], make)
        for name in names
    }


def _why(judged: Judged) -> str:
    return judged.unjudged or "no reason was given"


_Make = Callable[[Counter[Unit]], Bootstrap[Unit]]


def _scales(estimate: Callable[[Statistic], Figure], statistic: Statistic) -> Scales:
    return Scales(estimate(binary(statistic)), estimate(statistic))


def _apply_decreasing(found: Figure, function: Callable[[float | None], float | None]) -> Figure:
    """A decreasing function of a figure, which swaps the ends of its interval."""
    return Figure(function(found.value), function(found.upper), function(found.lower))


def _complement(found: Figure) -> Figure:
    return _apply_decreasing(found, lambda value: None if value is None else 1 - value)


def _stopped(reasons: Mapping[str, int], num: int) -> str | None:
    """The reason of an incomplete study, which is an exhausted budget; None: it is complete."""
    missing = sum(count for why, count in reasons.items() if why.startswith("budget"))
    return f"budget exhausted: {missing} of {num} judgings were not made" if missing else None


def _against(
    answers: Iterable[EpisodeVerdicts], others: Mapping[str, Label], make: _Make
) -> LabelComparison | None:
    """Single judgings compared with another source's labels, by episode; None: it has none."""
    units: Counter[Unit] = Counter()
    for each in answers:
        other = others.get(each.case.trajectory.episode)
        if other is not None and each.labels:
            units[tuple(sorted((other, label) for label in each.labels))] += 1
    if not units:
        return None
    sample = make(units)
    return LabelComparison(
        episodes=units.total(),
        judgings=sum(len(unit) * n for unit, n in units.items()),
        agreement=_scales(sample.share, agreement),
        kappa=_scales(sample.of, kappa),
        confusion=confusion(units),
    )


def _by_kind(
    answers: Sequence[EpisodeVerdicts], scope: StudyScope, make: _Make
) -> dict[str, LabelComparison]:
    """The comparison with code of the episodes of each kind of failure, the most frequent first."""
    labels = _code_labels(answers)
    found: dict[str, list[EpisodeVerdicts]] = {}
    for each in answers:
        diagnosis = scope.diagnoses.get(each.case.trajectory.episode)
        for kind in () if diagnosis is None else diagnosis.kinds:
            found.setdefault(str(kind), []).append(each)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    compared = {kind: _against(of_kind, labels, make) for kind, of_kind in ordered}
    return {kind: one for kind, one in compared.items() if one is not None}


def _code_labels(answers: Iterable[EpisodeVerdicts]) -> dict[str, Label]:
    labels = {each.case.trajectory.episode: _code_label(each.case) for each in answers}
    return {episode: label for episode, label in labels.items() if label is not None}


def _code_label(case: Case) -> Label | None:
    """The code's label: of this study or, where no verifier ran for it, of the log's latest verdict
    that has one."""
    logged = [
        judged.label if judged.judge == NAME else judged.code for judged in case.trajectory.judged
    ]
    labels = [label for label in (*logged, case.code.label) if label is not None]
    return labels[-1] if labels else None


def _j_against(answers: Sequence[EpisodeVerdicts], scope: StudyScope) -> dict[str, Youden]:
    """J of the judge, by who knows the truth. Code knows nothing about itself."""
    judges = {judged.judge for each in answers for judged in each.repeats}
    truths = {
        "people": _majorities(scope.humans or {}),
        "code": {} if judges <= {NAME} else _code_labels(answers),
    }
    found = {who: _youden_against(answers, truth) for who, truth in truths.items()}
    return {who: one for who, one in found.items() if one is not None}


def _youden_against(
    answers: Sequence[EpisodeVerdicts], truth: Mapping[str, Label]
) -> Youden | None:
    """J of single judgings; an episode whose world failed is neither right nor wrong work."""
    by_world = len({each.case.trajectory.started.scenario for each in answers}) >= MANY_WORLDS
    right: dict[str, list[float]] = {}
    wrong: dict[str, list[float]] = {}
    for each in answers:
        started, label = each.case.trajectory.started, truth.get(each.case.trajectory.episode)
        if label is None or label is Label.ENVIRONMENT_ERROR:
            continue
        unit = started.scenario if by_world else f"{started.scenario}/{started.task}"
        work = right if label is Label.COMPLETED else wrong
        work.setdefault(unit, []).extend(float(one is Label.COMPLETED) for one in each.labels)
    return youden(right, wrong, unit="world" if by_world else "task")


def _majorities(humans: Mapping[str, Mapping[str, Label]]) -> dict[str, Label]:
    """The label that most people gave an episode, by episode; ties are left out."""
    majority = {name: majority_label(labels.values()) for name, labels in humans.items()}
    return {name: label for name, label in majority.items() if label is not None}


def _against_people(
    answers: Sequence[EpisodeVerdicts], scope: StudyScope, make: _Make
) -> HumanComparison | None:
    if scope.humans is None:
        return None
    studied = {each.case.trajectory.episode for each in answers}
    given = {name: labels for name, labels in scope.humans.items() if name in studied}
    found = _against(answers, _majorities(given), make)
    people = make(units_of([list(labels.values()) for labels in given.values()]))
    unknown = Scales(Figure(None, None, None), Figure(None, None, None))
    found = found or LabelComparison(0, 0, unknown, unknown, confusion({}))
    return HumanComparison(
        **msgspec.structs.asdict(found),
        labellers=len({person for labels in given.values() for person in labels}),
        between=_scales(people.of, alpha),
    )


def _each_against_others(each: EpisodeVerdicts) -> Pairs:
    """Each repeat, paired with the majority of the others."""
    labels = each.labels
    pairs = [
        (majority_label(labels[:index] + labels[index + 1 :]), label)
        for index, label in enumerate(labels)
    ]
    return tuple((others, label) for others, label in pairs if others is not None)


def _against_base(each: EpisodeVerdicts, judged: Judged | None) -> Pairs:
    base = each.base
    if judged is None or judged.label is None or base is None:
        return ()
    return ((base, judged.label),)


def _flips(episodes: Iterable[Pairs], make: _Make) -> Flips:
    """The flips in pairs of a base label and a given one, by episode; those without pairs are left
    out."""
    shown = [tuple(sorted(pairs)) for pairs in episodes if pairs]
    others = [tuple(pair for pair in pairs if pair[0] is not Label.COMPLETED) for pairs in shown]
    not_completed = Counter(pairs for pairs in others if pairs)
    return Flips(
        episodes=len(shown),
        flipped=_complement(make(Counter(shown)).share(agreement)),
        not_completed=not_completed.total(),
        to_completed=make(not_completed).share(_to_completed),
    )


def _to_completed(units: Mapping[Unit, int]) -> float | None:
    num = sum(len(unit) * n for unit, n in units.items())
    moved = sum(n for unit, n in units.items() for _, label in unit if label == Label.COMPLETED)
    return moved / num if num else None


def _differs_from_code(each: EpisodeVerdicts) -> bool:
    code = _code_label(each.case)
    return code is not None and each.base not in (None, code)


def _names(
    answers: Iterable[EpisodeVerdicts], chosen: Callable[[EpisodeVerdicts], bool]
) -> tuple[str, ...]:
    return tuple(each.case.trajectory.episode for each in answers if chosen(each))


def _cost(verdicts: Sequence[Judged], seconds: float) -> Cost:
    judgements = [judgement for one in verdicts for judgement in (*one.judgements, *one.asked)]
    costs = [judgement.cost_usd for judgement in judgements]
    known = [cost for cost in costs if cost is not None]
    total = fsum(known) if len(known) == len(costs) else None
    judged = sum(verdict.label is not None for verdict in verdicts)
    return Cost(
        requests=sum(judgement.requests for judgement in judgements),
        prompt_tokens=sum(judgement.prompt_tokens for judgement in judgements),
        cached_tokens=sum(judgement.cached_tokens for judgement in judgements),
        completion_tokens=sum(judgement.completion_tokens for judgement in judgements),
        cost_usd=total,
        per_1024_episodes_usd=1024 * total / judged if total is not None and judged else None,
        seconds=seconds,
    )
