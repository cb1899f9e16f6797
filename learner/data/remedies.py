"""What a user can change when groups are dropped, by the reason (learner.data.grouping).

A batch whose groups are all dropped makes no update, and the run continues without an error.
Messages about such batches and runs therefore name the reasons and a remedy.
"""

from collections.abc import Mapping

from rehearsal_room.learner.data.grouping import Reason

_REMEDIES: dict[Reason, str] = {
    "equal": (
        "in every such group all episodes had the same reward, so there was nothing to compare: use"
        " easier or mixed tasks, a policy that succeeds sometimes, a larger group_size, or"
        " data.keep_equal = true (for cloning)"
    ),
    "few": (
        "fewer than two episodes of every such group could be used: use a larger group_size, and"
        " see in `rehearse show` of the rollouts why the others failed (a warning above says where"
        " they are longer than the model's context)"
    ),
    "stale": "the weights of these groups were too old: raise loop.staleness",
    "incomplete": (
        "episodes of these groups were cancelled, or their model could not be reached: see"
        " `rehearse show` of the rollouts"
    ),
    "unjudged": "the judge could not judge these groups: see `rehearse show` of the rollouts",
}


def format_counts(dropped: Mapping[str, int]) -> str:
    """The number of dropped groups by reason, as text.

    Example: {"equal": 7, "stale": 1} -> "equal 7, stale 1"
    """
    return ", ".join(f"{reason} {count:,}" for reason, count in dropped.items())


def remedy(dropped: Mapping[str, int]) -> str:
    """What to change, by the most frequent reason for which groups were dropped; empty: no group
    was dropped.

    Example: {"equal": 7, "stale": 1} -> "in every such group all episodes had the same reward, …"
    """
    reasons = [reason for reason in _REMEDIES if dropped.get(reason)]
    return _REMEDIES[max(reasons, key=lambda reason: dropped[reason])] if reasons else ""
