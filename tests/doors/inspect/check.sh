#!/usr/bin/env bash
# Inspect AI reads our .eval logs (check.sh PYTHON; RUNS names a folder for
# logged_runs, made where it is missing).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
runs=${RUNS:-$work/runs}
[ -d "$runs" ] || { .venv/bin/python -m tests.doors.logged_runs "$work/made" && mv "$work/made" "$runs"; }
for run in "$runs"/*/log.eval; do
    "$1" tests/doors/inspect/reader.py "$run" "$(dirname "$run")/episodes.jsonl"
done
"$1" tests/doors/inspect/viewer.py "$runs"
