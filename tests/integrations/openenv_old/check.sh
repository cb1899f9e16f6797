#!/usr/bin/env bash
# See tests/integrations/openenv_old/check.py. The argument is the Python of this door's environment.
exec .venv/bin/python -m tests.integrations.openenv_old.check "$@"
