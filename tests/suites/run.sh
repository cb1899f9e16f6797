#!/usr/bin/env bash
# The BFCL's own data, worlds and checks, against the suite bfcl_v3 (python -m tests.suites.campaign).
# The package is installed without its 148 dependencies, in an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/../.."
environment=.venv-suites
stamp=$environment/.installed
if [ ! -e $stamp ] || [ tests/suites/run.sh -nt $stamp ]; then
    [ -x $environment/bin/python ] || "${PYTHON:-python3}" -m venv $environment
    $environment/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
        bfcl-eval==2026.3.23 mpmath==1.3.0
    touch $stamp
fi
[ "${1:-}" = --install ] || exec .venv/bin/python -m tests.suites.campaign $environment/bin/python "$@"
