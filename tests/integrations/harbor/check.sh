#!/usr/bin/env bash
# Harbor's own models read our trajectories and task folders (check.sh PYTHON; RUNS names a folder
# for logged_runs, made where it is missing).
set -euo pipefail
python=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
runs=${RUNS:-$work/runs}
[ -d "$runs" ] || { .venv/bin/python -m tests.integrations.logged_runs "$work/made" && mv "$work/made" "$runs"; }
for run in "$runs"/*/trajectories.jsonl; do
    "$python" tests/integrations/harbor/reader.py "$run" "$(dirname "$run")/episodes.jsonl"
done
.venv/bin/python -m tests.integrations.harbor.round_trip "$runs" "$work/imported"
.venv/bin/rehearse export shop_support flight_desk claims_desk --to harbor -o "$work/tasks"
"$python" tests/integrations/harbor/tasks.py "$work/tasks"
