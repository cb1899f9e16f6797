#!/usr/bin/env bash
# rehearsal-verifiers in verifiers' own programs, with a scripted model (check.sh PYTHON).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" -W ignore -m tests.integrations.verifiers.check "$work"
