"""How good the estimators are, over all measured actions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from statistics import fmean, variance

import msgspec

from rehearsal_room.learner.credit.draws import Estimate, by_anchor, by_branches, by_group
from rehearsal_room.learner.credit.facts import ActionFacts, MeasuredTask, StateFacts

_CERTAIN = 1e-9  # estimates that are nearer to 0 have no sign


class Row(msgspec.Struct, frozen=True):
    """One estimator. Means are over states, and in a state over its actions by their shares."""

    name: str
    bias: float  # root of the mean squared distance of the estimate's mean from the advantage
    deviation: float  # square root of the mean variance
    error: float  # square root of the mean squared error
    wrong: float  # share of estimates with the wrong sign, where the advantage has a clear one
    silent: float  # share of estimates of 0 there
    explained: float  # squared correlation with the advantage: independent of the estimate's scale
    cost: float  # turns sampled to credit all turns of a group, in episodes of mean length


def estimators(
    size: int, widths: Sequence[int], discount: float
) -> Iterator[tuple[str, Estimate, Callable[[float], float]]]:
    """Each estimator with its name, and its cost by the mean number of turns of an episode."""

    def branched(width: int) -> Callable[[float], float]:
        # The episode, and from each of its states so many others to the end.
        return lambda turns: 1 + width * (turns + 1) / 2

    yield f"GRPO, {size}", by_group(size, is_scaled=True), lambda turns: size
    yield f"leave-one-out, {size}", by_group(size, is_scaled=False), lambda turns: size
    yield f"leave-one-out, {4 * size}", by_group(4 * size, is_scaled=False), lambda turns: 4 * size
    yield f"GiGPO, {size}", by_anchor(size, discount=discount), lambda turns: size
    yield f"GiGPO, {size}, no discount", by_anchor(size, discount=1.0), lambda turns: size
    for width in widths:
        branch = by_branches(width, is_vine=True, looks_ahead=False)
        yield f"branch, K = {width}", branch, branched(width)
    for width in widths:
        yield f"vine, K = {width}", by_branches(width, is_vine=True), branched(width)
    for width in widths:
        yield f"tree, K = {width}", by_branches(width, is_vine=False), branched(width)


def ranking(
    states: Sequence[StateFacts],
    tasks: Mapping[str, MeasuredTask],
    *,
    size: int,
    widths: Sequence[int],
    discount: float,
    draws: int,
    seed: int,
) -> list[Row]:
    """One row for each estimator, from so many draws for each action."""
    turns = fmean([len(one.anchors) for task in tasks.values() for one in task.courses])
    return [
        _row(name, estimate, cost(turns), states, tasks, draws, Random(f"{seed} {name}"))
        for name, estimate, cost in estimators(size, widths, discount)
    ]


def _row(
    name: str,
    estimate: Estimate,
    cost: float,
    states: Sequence[StateFacts],
    tasks: Mapping[str, MeasuredTask],
    draws: int,
    chance: Random,
) -> Row:
    sums = dict.fromkeys(("bias", "variance", "error", "wrong", "silent", "clear"), 0.0)
    both = own = true = 0.0
    for state in states:
        value, starts = state.value, tasks[state.task].courses
        total = sum(one.share for one in state.actions)
        for action in state.actions:
            weight = action.share / total / len(states)
            exact = action.value - value
            found = [estimate(state, action, starts, chance) for _ in range(draws)]
            mean = fmean(found)
            spread = variance(found)
            # Without what the mean of so few draws adds.
            sums["bias"] += weight * ((mean - exact) ** 2 - spread / draws)
            sums["variance"] += weight * spread
            sums["error"] += weight * fmean([(one - exact) ** 2 for one in found])
            both += weight * mean * exact
            own += weight * fmean([one**2 for one in found])
            true += weight * exact**2
            if is_clear(state, action):
                sums["clear"] += weight
                sums["silent"] += weight * fmean([abs(one) <= _CERTAIN for one in found])
                sums["wrong"] += weight * fmean([one * exact < -_CERTAIN for one in found])
    clear = sums["clear"] or 1.0
    return Row(
        name=name,
        bias=max(0.0, sums["bias"]) ** 0.5,
        deviation=sums["variance"] ** 0.5,
        error=sums["error"] ** 0.5,
        wrong=sums["wrong"] / clear,
        silent=sums["silent"] / clear,
        explained=both**2 / (own * true) if own and true else 0.0,
        cost=cost,
    )


def is_clear(state: StateFacts, action: ActionFacts) -> bool:
    """Whether the sign of an action's advantage is known: it is farther from 0 than the interval of
    its value."""
    return abs(action.value - state.value) > max(action.half_width, _CERTAIN)


def markdown_of(rows: Sequence[Row]) -> str:
    """The rows as a table."""
    heads = ("estimator", "bias", "deviation", "error", "wrong sign", "zero", "explained", "cost")
    lines = [f"| {' | '.join(heads)} |", f"|---{'|---:' * (len(heads) - 1)}|"]
    for one in rows:
        cells = [one.name, *(f"{x:.3f}" for x in (one.bias, one.deviation, one.error))]
        cells += [f"{100 * x:.1f} %" for x in (one.wrong, one.silent, one.explained)]
        lines.append(f"| {' | '.join([*cells, f'{one.cost:.1f}'])} |")
    return "\n".join(lines) + "\n"
