#!/usr/bin/env bash
# Harbor's own models read our trajectories and task folders (check.sh PYTHON; RUNS names a folder that
# logged_runs made). Its wheel asks for Python 3.12, so its files are used by their path.
set -euo pipefail
python=$1
wheel=$(dirname "$(dirname "$python")")/harbor
if [ ! -d "$wheel" ]; then
    mkdir "$wheel.part"
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --ignore-requires-python \
        -d "$wheel.part" harbor==0.25.0
    "$python" -m zipfile -e "$wheel.part"/harbor-*.whl "$wheel.part"
    mv "$wheel.part" "$wheel"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
runs=${RUNS:-$work/runs}
[ -d "$runs" ] || .venv/bin/python -m tests.doors.logged_runs "$runs"
for run in "$runs"/*/trajectories.jsonl; do
    PYTHONPATH=$wheel "$python" tests/doors/harbor/reader.py "$run" "$(dirname "$run")/episodes.jsonl"
done
.venv/bin/python -m tests.doors.harbor.round_trip "$runs" "$work/imported"
.venv/bin/rehearse export shop_support flight_desk claims_desk --to harbor -o "$work/tasks"
PYTHONPATH=$wheel "$python" tests/doors/harbor/tasks.py "$work/tasks"
