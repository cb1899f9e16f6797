"""What limited a run: one sentence about its stages."""

from collections.abc import Mapping, Set

from rehearsal_room.harness.profile.report import StageTime, percent, title_of

_BUSY = 0.8  # share of wall time from which on one part of the process limits everything
_MOST = 0.5  # share of episode time from which on one stage is the limit
# Parts of the process, in the order of cause: a slow listener stops the log, and where the event
# loop is late, the log's commits are too.
_WALL_LIMITS = {
    "bus": "a listener (judge, link or learner) was the limit: the log waited for it",
    "loop_lag": "the event loop was the limit: it was late",
    "log": "the log was the limit: it wrote",
}
_LIMITS = {
    "admission": "admission was the limit",
    "world": "the pool of worlds was the limit",
    "tools": "the tools were the limit",
    "full_log": "the log was the limit",
    "rest": "the harness's own process was the limit",
}
_SERVED = ("openai:", "vllm:")


def bottleneck_of(stages: Mapping[str, StageTime], policies: Set[str], culprit: str) -> str:
    """What limited a run with these policies. `culprit` is what blocked the event loop for longest
    (empty: not known).

    Example: "the model server was the limit: 92 % of episode time"
    """
    ranked = sorted(
        (name for name, stage in stages.items() if stage.of == "episodes"),
        key=lambda name: -stages[name].share,
    )
    if not stages[ranked[0]].seconds:
        return "nothing was the limit: no episode has taken any time"
    for name, what in _WALL_LIMITS.items():
        if name in stages and stages[name].share >= _BUSY:
            by = f" (worst: {culprit})" if name == "loop_lag" and culprit else ""
            return f"{what} for {percent(stages[name].share)} of wall time{by}"
    if stages["judge"].share >= _MOST:
        what = "the judge was the limit: no episode was left to play"
        return f"{what} for {percent(stages['judge'].share)} of wall time"
    shares = [f"{title_of(name)} {percent(stages[name].share)}" for name in ranked[:2]]
    if stages[ranked[0]].share < _MOST:
        return f"no stage was the limit: {' and '.join(shares)} of episode time"
    what = _LIMITS.get(ranked[0]) or _policy_limit(policies)
    return f"{what}: {percent(stages[ranked[0]].share)} of episode time"


def _policy_limit(policies: Set[str]) -> str:
    if all(policy.startswith(_SERVED) for policy in policies):
        return "the model server was the limit"
    if all(policy.startswith("local:") for policy in policies):
        return "the model was the limit"
    return f"the policy ({', '.join(sorted(policies))}) was the limit"
