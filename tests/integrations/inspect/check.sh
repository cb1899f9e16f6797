#!/usr/bin/env bash
# Inspect AI writes and reads our .eval logs (check.sh PYTHON; RUNS names a folder for
# logged_runs, made where it is missing).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
runs=${RUNS:-$work/runs}
"$1" -m pytest -q tests/integrations/inspect/check_log.py
[ -d "$runs" ] || { .venv/bin/python -m tests.integrations.logged_runs "$work/made" && mv "$work/made" "$runs"; }
for lines in "$runs"/*/episodes.jsonl; do
    run=$(dirname "$lines")
    "$1" -m rehearsal_room export "$run" --to inspect -o "$run/log.eval"
    "$1" tests/integrations/inspect/reader.py "$run/log.eval" "$lines"
done
"$1" tests/integrations/inspect/viewer.py "$runs"
