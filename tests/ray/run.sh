#!/usr/bin/env bash
# Engine ray against Ray itself: a local cluster, and clusters of two nodes on this machine.
#
#   tests/ray/run.sh [ARGS OF PYTEST]        (makes .venv-ray when it is missing or old)
#   tests/ray/run.sh --install               (makes it and runs nothing)
#
# Ray is not among the packages of `just sync`: 80 MB, and nothing else needs it. The environment
# has the core, Ray and what the tests import, in the tested versions.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=.venv-ray
if [ ! "$venv/.done" -nt pyproject.toml ] || [ ! "$venv/.done" -nt constraints.txt ]; then
    [ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt \
        -e '.[ray]' hypothesis pytest pytest-timeout trio
    touch "$venv/.done"
fi
[ "${1:-}" != --install ] || exit 0
exec "$venv/bin/python" -m pytest tests/ray "$@"
