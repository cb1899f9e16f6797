"""`--openenv URL` on OpenEnv's own server."""


def run_on_official(python: str) -> None:
    """Not there yet."""
