#!/usr/bin/env bash
# Official clients of other projects against ours: one door each, in an environment of its own
# (.venv-doors-NAME), since their packages cannot share one.
#
#   tests/doors/run.sh [--install] [DOOR...]      (default: every door)
#
# A door is tests/doors/DOOR/: `install.txt` (packages for pip, one a line), and `check.sh`, which is
# called with the door's Python as its argument, in the repository's root; ours is .venv/bin/python.
# With --install the environments are made or renewed, and nothing is checked.
set -euo pipefail
cd "$(dirname "$0")/../.."
only_install=
if [ "${1:-}" = --install ]; then
    only_install=1
    shift
fi
doors=("$@")
if [ ${#doors[@]} = 0 ]; then
    shopt -s nullglob
    for folder in tests/doors/*/install.txt; do doors+=("$(basename "$(dirname "$folder")")"); done
fi
failed=()
for door in "${doors[@]}"; do
    folder=tests/doors/$door
    if [ ! -e "$folder/install.txt" ]; then
        echo "tests/doors/run.sh: there is no door '$door' (expected $folder/install.txt)" >&2
        exit 2
    fi
    environment=.venv-doors-$door
    stamp=$environment/.installed
    if [ ! -e "$stamp" ] || [ "$folder/install.txt" -nt "$stamp" ]; then
        [ -x "$environment/bin/python" ] || "${PYTHON:-python3}" -m venv "$environment"
        "$environment/bin/python" -m pip install --quiet --disable-pip-version-check \
            -r "$folder/install.txt"
        touch "$stamp"
    fi
    [ -z "$only_install" ] || continue
    echo "== $door"
    bash "$folder/check.sh" "$environment/bin/python" || failed+=("$door")
done
if [ ${#failed[@]} != 0 ]; then
    echo "doors that failed: ${failed[*]}" >&2
    exit 1
fi
