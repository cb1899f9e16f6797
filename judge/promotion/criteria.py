"""The criteria of a promotion: a metric, a bound of it, and a number.

    completed.lower >= 0.80             the lower bound of the share of completed episodes
    completed[hard].lower >= 0.5        the same of tasks with a tag
    share.lower >= 0.8                  the mean share of a task, where verdicts have one; of a task
                                        that is all or nothing 1 or 0. share[hard] as above
    completed(these).lower >= 0.80      the same of these tasks alone, however few: exact bounds
    pass^4.lower >= 0.6                 all of four tries at a task; pass@4: at least one
    missing_write.upper <= 0.05         a kind of failure, as the verdicts show it
    agent_error.upper <= 0.1            a label
    finding(attack resisted).lower >= 0.95    episodes in which a finding passed
    mean_reward.lower >= 0.7
    p95_calls <= 12                     a percentile of calls, steps or seconds
    regression.vs(base) >= -0.02        completed less the base run's: with its interval
    J.lower >= 0.9                      of the judge: TPR - FPR, from a study's file or the gate's

A criterion on a bound has three verdicts. `completed.lower >= 0.8` passes when the lower bound is
at least 0.8, fails when even the upper bound is below it, and is inconclusive between them. So does
`regression.vs(base)`, which is always about its bounds. A criterion without a bound compares the
value itself: use it for limits, not for rates.

Episodes without a verdict (harness.outcomes.scores) count where they hurt: the lower bound takes
them for failed, the upper one for completed. Where they are more than 2 % of the episodes that a
criterion is about, it is inconclusive, whatever its interval is.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.core.mistakes import FailureKind
from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.harness.outcomes.scores import MOST_WITHOUT_VERDICT
from rehearsal_room.harness.outcomes.units import Unit, by_unit
from rehearsal_room.judge.promotion.facts import EpisodeFacts, outcomes_in
from rehearsal_room.judge.statistics.comparison import compare
from rehearsal_room.judge.statistics.intervals import (
    exact_interval,
    mean_interval,
    quantile_interval,
    share_interval,
)
from rehearsal_room.judge.statistics.outcomes import TaskKey, filled
from rehearsal_room.judge.statistics.run_statistics import pass_at, pass_hat
from rehearsal_room.judge.statistics.youden import Youden

CriterionVerdict = Literal["pass", "fail", "inconclusive"]
CriterionBound = Literal["value", "lower", "upper"]
_TEXT = re.compile(r"(?P<metric>.+?)(?:\.(?P<bound>[a-z]+))?\s*(?P<op>>=|<=|>|<)\s*(?P<number>\S+)")
_PASS = re.compile(r"pass(?P<how>[@^])(?P<k>[1-9]\d*)")
_PERCENTILE = re.compile(r"p(?P<share>\d{1,2})_(?P<what>calls|steps|seconds)")
_TAGGED = re.compile(r"(?:completed|share)\[(?P<tag>[\w-]+)\]")
_FINDING = re.compile(r"finding\((?P<name>.+)\)")
_REGRESSION = "regression.vs(base)"
_THESE = "completed(these)"
_J = "J"
_SHARES = frozenset({*map(str, Label), *map(str, FailureKind)})
# What is known of an episode although nothing is known of its agent.
_OF_FAILURES = frozenset(
    {
        str(Label.ENVIRONMENT_ERROR),
        *map(str, (FailureKind.WORLD_FAILURE, FailureKind.MODEL_FAILURE, FailureKind.UNJUDGED)),
    }
)
METRICS = (
    "completed, completed[TAG], completed(these), share, share[TAG], pass^K, pass@K, mean_reward, "
    "regression.vs(base), finding(NAME), p95_calls, p95_steps, p95_seconds, J, a label such as "
    "agent_error, or a kind of failure such as missing_write"
)

RunFacts = Sequence[EpisodeFacts]


class Criterion(msgspec.Struct, frozen=True):
    """One criterion, read."""

    name: str  # as it is written
    metric: str
    bound: CriterionBound
    op: str
    number: float

    @property
    def compares(self) -> bool:
        """Whether it compares with the base run."""
        return self.metric == _REGRESSION

    @property
    def is_about_judge(self) -> bool:
        """Whether it is about the judge, which a file describes."""
        return self.metric == _J

    @property
    def counts_calls(self) -> bool:
        """Whether it needs the number of tool calls."""
        found = _PERCENTILE.fullmatch(self.metric)
        return found is not None and found["what"] == "calls"

    @property
    def is_uncertain(self) -> bool:
        """Whether it can be inconclusive, and fail by accident."""
        return self.bound != "value"


class CriterionEstimate(msgspec.Struct, frozen=True):
    """What the episodes say of a metric, with those without a verdict taken for the worst and for
    the best."""

    value: float  # of the episodes with a verdict
    least: float  # the value where the others are taken for the worst
    most: float  # … and for the best
    lower: float  # the bound of the interval of `least`
    upper: float  # … and of `most`
    missing: int = 0  # episodes without a verdict
    episodes: int = 0  # that the metric is about

    @property
    def is_known(self) -> bool:
        """Whether enough episodes have a verdict to decide on the others."""
        return self.missing <= MOST_WITHOUT_VERDICT * self.episodes


class CriterionResult(msgspec.Struct, frozen=True):
    """What a criterion found."""

    name: str
    value: float | None  # None: the runs have nothing that it could be computed from
    lower: float | None
    upper: float | None
    verdict: CriterionVerdict
    missing: int = 0  # episodes that it is about and that have no verdict
    episodes: int = 0  # that it is about


def parse_criterion(text: str) -> Criterion:
    """Read a criterion. Raises SettingsError with what is wrong, and what is known."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise SettingsError(
            f"criterion {text!r} is not of the form METRIC.BOUND >= NUMBER, as in "
            "completed.lower >= 0.8"
        )
    metric, bound = found["metric"], found["bound"]
    if metric == "regression":  # `vs(base)` is not a bound
        raise SettingsError(f"criterion {text!r}: write {_REGRESSION} >= -0.02")
    chosen: CriterionBound | None = next(
        (one for one in get_args(CriterionBound) if one == bound), None
    )
    if bound is not None and chosen is None:
        raise SettingsError(f"criterion {text!r}: .{bound} is not lower, upper or value")
    if not is_metric(metric):
        raise SettingsError(f"criterion {text!r}: unknown metric {metric!r}; metrics: {METRICS}")
    try:
        number = float(found["number"])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise SettingsError(f"criterion {text!r}: {found['number']!r} is not a number")
    if chosen is None and metric == _REGRESSION:
        chosen = "lower" if found["op"].startswith(">") else "upper"
    return Criterion(text.strip(), metric, chosen or "value", found["op"], number)


def is_metric(name: str) -> bool:
    """Whether a criterion may use this metric."""
    if name in ("completed", "share", "mean_reward", _THESE, _REGRESSION, _J) or name in _SHARES:
        return True
    return any(one.fullmatch(name) for one in (_PASS, _PERCENTILE, _TAGGED, _FINDING))


def judge_criterion(
    criterion: Criterion,
    facts: RunFacts,
    base: RunFacts,
    *,
    level: float,
    fail_level: float,
    unit: Unit,
    judge: Youden | None = None,
) -> CriterionResult:
    """The verdict of a criterion. Intervals are of `level`; that of a failure is of `fail_level`,
    which is higher where several criteria could fail by accident. `judge` is what a file says about
    the runs' judge, at 95 %."""
    if criterion.is_about_judge:
        found = None if judge is None else _without_gaps(judge.j, 0)
        wider = found
    else:
        found = estimate(criterion.metric, facts, base, level, unit)
        wider = estimate(criterion.metric, facts, base, fail_level, unit)
    if found is None:
        return CriterionResult(criterion.name, None, None, None, "inconclusive")
    return CriterionResult(
        criterion.name,
        found.value,
        _finite(found.lower),
        _finite(found.upper),
        _verdict(criterion, found, wider or found),
        found.missing,
        found.episodes,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


_HOLDS: dict[str, Callable[[float, float], bool]] = {
    ">=": lambda value, number: value >= number,
    "<=": lambda value, number: value <= number,
    ">": lambda value, number: value > number,
    "<": lambda value, number: value < number,
}


def _verdict(
    criterion: Criterion, found: CriterionEstimate, wider: CriterionEstimate
) -> CriterionVerdict:
    if not found.is_known:
        return "inconclusive"
    holds = _HOLDS[criterion.op]
    if criterion.bound == "value":
        both = {holds(one, criterion.number) for one in (found.least, found.most)}
        if len(both) == 2:
            return "inconclusive"
        return "pass" if both == {True} else "fail"
    # The bound that is worse for the agent is the safe one; the better one shows a failure.
    worse, better = ("lower", "upper") if criterion.op.startswith(">") else ("upper", "lower")
    asked = getattr(found, criterion.bound)
    if criterion.bound == worse and holds(asked, criterion.number):
        return "pass"
    if criterion.bound == better:
        return "pass" if holds(asked, criterion.number) else "fail"
    return "inconclusive" if holds(getattr(wider, better), criterion.number) else "fail"


def estimate(
    metric: str, facts: RunFacts, base: RunFacts, level: float, unit: Unit
) -> CriterionEstimate | None:
    """A metric of the runs, with its interval; None: there is nothing to compute it from."""
    if metric == _REGRESSION:
        return _regression(facts, base, level, unit)
    about = [one for one in facts if _is_about(metric, one)]
    missing = sum(not _is_known(metric, one) for one in about)
    known = _interval(metric, [one for one in about if _is_known(metric, one)], level, unit)
    if not missing:
        return None if known is None else _without_gaps(known, len(about))
    worst, best = _extremes(metric, about)
    least = _interval(metric, [_taken_for(metric, one, worst) for one in about], level, unit)
    most = _interval(metric, [_taken_for(metric, one, best) for one in about], level, unit)
    if least is None or most is None:
        return None
    value = (known or least).value
    return CriterionEstimate(
        value, least.value, most.value, least.lower, most.upper, missing, len(about)
    )


def _without_gaps(found: Interval[float], episodes: int) -> CriterionEstimate:
    value = found.value
    return CriterionEstimate(value, value, value, found.lower, found.upper, 0, episodes)


def _regression(
    facts: RunFacts, base: RunFacts, level: float, unit: Unit
) -> CriterionEstimate | None:
    """Completed less the base run's. An episode without a verdict is taken for a loss in the lower
    bound, and for a gain in the upper one."""
    runs, before = outcomes_in(facts), outcomes_in(base)
    found = compare(before, runs, level=level, unit=unit)
    shared = {one.key for one in runs} & {one.key for one in before}
    about = [[one for one in group if one.key in shared] for group in (runs, before)]
    gaps = [sum(one.score is None for one in group) for group in about]
    if not any(gaps):
        if found is None:
            return None
        return _without_gaps(Interval(found.delta, *found.interval), len(about[0]))
    least = compare(filled(before, 1.0), filled(runs, 0.0), level=level, unit=unit)
    most = compare(filled(before, 0.0), filled(runs, 1.0), level=level, unit=unit)
    if least is None or most is None:
        return None
    share, group = max((gap / len(group), group) for gap, group in zip(gaps, about, strict=True))
    return CriterionEstimate(
        (found or least).delta,
        *(least.delta, most.delta, least.interval[0], most.interval[1]),
        *(round(share * len(group)), len(group)),
    )


def _is_about(metric: str, one: EpisodeFacts) -> bool:
    """Whether the metric is about the episode."""
    if (tagged := _TAGGED.fullmatch(metric)) is not None:
        return tagged["tag"] in one.tags
    if (finding := _FINDING.fullmatch(metric)) is not None:
        return finding["name"] in one.findings or one.score is None or not one.is_judged
    return True


def _is_known(metric: str, one: EpisodeFacts) -> bool:
    """Whether the episode says what it adds to the metric. That a world or a model failed is known
    without a verdict on the agent; findings and a reward are not, though an own program failed."""
    if metric in _OF_FAILURES:
        return True
    is_of_verdict = metric == "mean_reward" or _FINDING.fullmatch(metric) is not None
    return one.score is not None and (one.is_judged or not is_of_verdict)


def _extremes(metric: str, facts: RunFacts) -> tuple[float, float]:
    """The least and the greatest that an episode without a verdict could have added."""
    if _PERCENTILE.fullmatch(metric) is not None:
        return 0.0, math.inf
    rewards = [one.reward for one in facts if one.reward is not None]
    return (min(0.0, *rewards), max(1.0, *rewards)) if metric == "mean_reward" else (0.0, 1.0)


def _taken_for(metric: str, one: EpisodeFacts, value: float) -> EpisodeFacts:
    """The episode; where it has no verdict, as if it added this value to the metric."""
    if _is_known(metric, one):
        return one
    if (percentile := _PERCENTILE.fullmatch(metric)) is not None:
        return msgspec.structs.replace(one, **{percentile["what"]: value})
    if (finding := _FINDING.fullmatch(metric)) is not None:
        findings = {finding["name"]: bool(value)}
        return msgspec.structs.replace(one, score=value, findings=findings, is_judged=True)
    if metric in _SHARES:
        name = (metric,) if value else ()
        label = metric if value else str(Label.COMPLETED)
        return msgspec.structs.replace(one, score=value, label=label, kinds=name)
    return msgspec.structs.replace(one, score=value, reward=value, share=value)


def _interval(metric: str, facts: RunFacts, level: float, unit: Unit) -> Interval[float] | None:
    """The metric of these episodes, all of which are known."""
    if (percentile := _PERCENTILE.fullmatch(metric)) is not None:
        numbers = [float(getattr(one, percentile["what"])) for one in facts]
        return quantile_interval(numbers, int(percentile["share"]) / 100, level=level)
    if metric == _THESE:
        return exact_interval([one.score or 0.0 for one in facts], level=level)
    if metric == "mean_reward":
        rewards = _clusters(facts, lambda one: one.reward)
        return mean_interval(by_unit(rewards, unit), level=level)
    if (several := _PASS.fullmatch(metric)) is not None:
        return _pass(facts, several["how"], int(several["k"]), level, unit)
    return share_interval(by_unit(_clusters(facts, _share_of(metric)), unit), level=level)


def _share_of(metric: str) -> Callable[[EpisodeFacts], float | None]:
    """What an episode adds to a share; None: it does not count."""
    if metric.partition("[")[0] == "share":
        return lambda one: one.share
    if metric == "completed" or _TAGGED.fullmatch(metric) is not None:
        return lambda one: one.score
    if (finding := _FINDING.fullmatch(metric)) is not None:
        name = finding["name"]
        return lambda one: float(one.findings[name]) if name in one.findings else None
    if metric in set(map(str, Label)):
        return lambda one: float(one.label == metric)
    return lambda one: float(metric in one.kinds)


def _clusters(
    facts: RunFacts, value_of: Callable[[EpisodeFacts], float | None]
) -> dict[TaskKey, list[float]]:
    found: dict[TaskKey, list[float]] = {}
    for one in facts:
        if (value := value_of(one)) is not None:
            found.setdefault(one.key, []).append(value)
    return found


def _pass(facts: RunFacts, how: str, k: int, level: float, unit: Unit) -> Interval[float] | None:
    """pass@k or pass^k over the tasks; None: a task has fewer than k tries."""
    chance = pass_hat if how == "^" else pass_at
    tries = _clusters(facts, lambda one: one.score)
    if not tries or min(map(len, tries.values())) < k:
        return None
    values = {key: [chance(round(sum(one)), len(one), k)] for key, one in tries.items()}
    return share_interval(by_unit(values, unit), level=level)
