#!/usr/bin/env bash
# tinker-cookbook's rollout loop on one of our environments (check.sh PYTHON). The cookbook is installed
# without its dependencies: it asks for a version of tml-renderers that is not everywhere.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" -m pip install --quiet --disable-pip-version-check --no-deps tinker-cookbook==0.6.1
"$1" -W ignore -m tests.doors.trainers.check "$work" tinker
