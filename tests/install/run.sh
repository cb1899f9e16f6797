#!/usr/bin/env bash
# The wheel, without extras, in an environment of its own and used from another folder.
#
#   tests/install/run.sh        (20 seconds)
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/source"
git ls-files -z --cached --others --exclude-standard | tar --null -T - -c --ignore-failed-read 2>/dev/null | tar -x -C "$work/source"
cp constraints.txt "$work"
"${PYTHON:-python3}" -m venv "$work/venv"
pip() { "$work/venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
pip wheel --no-deps -w "$work" "$work/source"
pip install -c constraints.txt "$work"/rehearsal_room-*.whl
cd "$work"
PATH="$work/venv/bin:$PATH"

run() { # a command that must succeed
    echo "rehearse $*"
    rehearse "$@" >output.txt 2>&1 || { cat output.txt; exit 1; }
}

refuse() { # a sentence, and a command that must print it and fail
    local sentence=$1; shift
    echo "rehearse $* (must fail)"
    if rehearse "$@" >output.txt 2>&1 || ! grep -qF "$sentence" output.txt; then
        cat output.txt
        exit 1
    fi
}

run --version
grep -q '^rehearse, version ' output.txt
run bench shop_support flight_desk claims_desk -n 64
grep -q 'pass rate *1.000' output.txt
run generate --count 2 --seed 1 -o worlds
run run worlds/*/ -o runs/made
run show runs/made
run judge runs/made --mode code
run schema
run completion bash
refuse "pip install 'rehearsal-room[report]'" scenarios report worlds -o page.html
printf 'model = "none"\nsteps = 1\n[rollouts]\nscenarios = ["shop_support"]\ngroup_size = 2\n' >train.toml
refuse "pip install 'rehearsal-room[train]'" train train.toml
refuse "pip install 'rehearsal-room[awm]'" run worlds/*/ --isolate -o runs/isolated
