#!/usr/bin/env bash
# Inspect AI reads our .eval logs (check.sh PYTHON; RUNS names a folder that logged_runs made).
set -euo pipefail
runs=${RUNS:-}
if [ -z "$runs" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    runs=$work/runs
    .venv/bin/python -m tests.doors.logged_runs "$runs"
fi
for run in "$runs"/*/log.eval; do
    "$1" tests/doors/inspect/reader.py "$run" "$(dirname "$run")/episodes.jsonl"
done
"$1" tests/doors/inspect/viewer.py "$runs"
