"""A judge that errs on purpose, for experiments on what a judge's errors do to training.

It takes the verdict of another judge and turns `completed` into `agent_error`, and every other
label into `completed`, in shares that the settings name. What J = TPR − FPR it has is then known.
Which episodes it hits depends on the seed and on the episode's name alone, so judging again, also
after a resumption, errs in the same places.
"""

from hashlib import blake2b

import msgspec

from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.core.events import WITH_ERRORS, Judged, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.core import live_judging
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.core.rewards import RewardProfile, rewards_of
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges

_RANGE = 2**64


class PlantedErrors:
    """The code judge with errors of known shares. Its verdicts have the code's label in `code`."""

    def __init__(
        self,
        judge: ScenarioJudges,
        *,
        false_positives: float,
        false_negatives: float,
        seed: int,
        profile: RewardProfile,
    ) -> None:
        """`false_positives` is the share of episodes that are not completed and are called
        completed, `false_negatives` that of completed ones that are not called so; 0 to 1."""
        self._judge = judge
        self._shares = {True: false_negatives, False: false_positives}
        self._seed = seed
        self._profile = profile
        self.name = f"{judge.name}{WITH_ERRORS}{false_positives:g}/{false_negatives:g}"

    async def serve(self, subscription: Subscription, record: live_judging.RecordJudged) -> None:
        """Judge every episode that ends, until the bus is closed (see judge.core.live_judging)."""
        await live_judging.serve(subscription, self, record)

    def suspends(self, trajectory: Trajectory) -> bool:
        """See ScenarioJudges.suspends."""
        return self._judge.suspends(trajectory)

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        """What code knows about the episode, without the planted errors."""
        return await self._judge.case(trajectory)

    async def verdict(self, trajectory: Trajectory) -> Judged:
        """The verdict on an episode that is over; ValueError when it is not. One without a label
        stays without."""
        judged = await self._judge.verdict(trajectory)
        if judged.label is None:
            return msgspec.structs.replace(judged, judge=self.name)
        is_completed = judged.label is Label.COMPLETED
        key = f"{self._seed}/{trajectory.episode}".encode()
        drawn = int.from_bytes(blake2b(key, digest_size=8).digest()) / _RANGE
        if drawn >= self._shares[is_completed]:
            return msgspec.structs.replace(judged, judge=self.name, code=judged.label)
        label = Label.AGENT_ERROR if is_completed else Label.COMPLETED
        reward, steps = rewards_of(label, trajectory, self._profile, judged.findings, judged.idle)
        return msgspec.structs.replace(
            judged,
            judge=self.name,
            code=judged.label,
            label=label,
            reward=reward,
            step_rewards=steps,
            share=None,  # it follows from the label, which is another one
            reasoning="an error was planted here, as `errors` of the judge's settings asks",
        )
