"""The policy `local`, whose library is optional and takes seconds to import."""

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.policies.base import OpenPolicy
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.scenarios.distribution import missing_package


def local_policy(settings: Settings) -> OpenPolicy:
    """The policy of the settings, whose model this process runs. Raises SettingsError where the
    learner's libraries are not installed."""
    try:
        from rehearsal_room.learner.inference.local_policy import local_policy as opened
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("policy: 'local'", exc, "train")) from exc
    return opened(settings)
