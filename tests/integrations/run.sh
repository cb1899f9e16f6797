#!/usr/bin/env bash
# Official clients of other projects against ours: one door each, in an environment of its own
# (.venv-doors-NAME), since their packages cannot share one. At the end a table says which versions
# were there, what passed, and how many seconds it took; the exit status is 1 where a door failed.
# build/doors keeps the table (table.md) and each door's output (NAME.log).
#
#   tests/integrations/run.sh [--install] [DOOR...]      (default: every door)
#
# A door is tests/integrations/DOOR/:
#   install.txt   packages, one a line; without it there is no door
#   alone.txt     packages that are installed without their dependencies and for any Python, optional
#   check.sh      called with the door's Python in the repository's root; ours is .venv/bin/python.
#                 Exit status 77: skipped, and its last line says why
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
    for file in tests/integrations/*/install.txt; do doors+=("$(basename "$(dirname "$file")")"); done
fi
for door in "${doors[@]}"; do
    if [ ! -e "tests/integrations/$door/install.txt" ]; then
        echo "tests/integrations/run.sh: there is no door '$door' (expected tests/integrations/$door/install.txt)" >&2
        exit 2
    fi
done

uv=.venv-install/bin/uv
if [ ! -x "$uv" ]; then
    "${PYTHON:-python3}" -m venv .venv-install
    .venv-install/bin/python -m pip install --quiet --disable-pip-version-check uv
fi
export UV_PYTHON_DOWNLOADS=never UV_FIND_LINKS=${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}
unset PYTHONPATH VIRTUAL_ENV
interpreter=$(command -v "${PYTHON:-python3}")

install() { # a door's environment, unless its stamp is newer than what names the packages
    local folder=tests/integrations/$1 environment=.venv-doors-$1
    local stamp=$environment/.installed python=$environment/bin/python
    if [ "$stamp" -nt "$folder/install.txt" ] &&
        { [ ! -e "$folder/alone.txt" ] || [ "$stamp" -nt "$folder/alone.txt" ]; }; then return; fi
    [ -x "$python" ] || "$uv" venv --quiet --no-project --python "$interpreter" "$environment" || return
    "$uv" pip install --quiet --python "$python" -r "$folder/install.txt" || return
    if [ -e "$folder/alone.txt" ]; then
        "$uv" pip install --quiet --python "$python" --python-version 3.13 --no-deps \
            -r "$folder/alone.txt" || return
    fi
    touch "$stamp"
}

versions() { # what a door's environment has of the packages that its files pin
    local pinned
    pinned=$(cat "tests/integrations/$1"/{install,alone}.txt 2>/dev/null | sed -n 's/^\([A-Za-z0-9_.-]*\)==.*/\1/p')
    ".venv-doors-$1/bin/python" - $pinned <<'END' 2>/dev/null || echo '?'
import sys
from importlib.metadata import version

print(", ".join(f"{name} {version(name)}" for name in sys.argv[1:]) or "-")
END
}

check() { # a door; prints its row of the table
    local log=build/doors/$1.log start=$SECONDS status=0 used=0 result=passed
    echo "== $1" >&2
    install "$1" >"$log" 2>&1 || status=1
    local installed=$((SECONDS - start))
    if [ $status = 0 ] && [ -z "$only_install" ]; then
        local began=$SECONDS TIMEFORMAT='%U %S'
        used=$({ time bash "tests/integrations/$1/check.sh" ".venv-doors-$1/bin/python" >"$log" 2>&1; } 2>&1) ||
            status=$?
        used=$(awk '{ printf "%.0f", $1 + $2 }' <<<"$used")
        start=$began
    fi
    cat "$log" >&2
    case $status in 0) ;; 77) result=skipped ;; *) result=FAILED ;; esac
    [ -z "$only_install" ] || [ $status != 0 ] || result=installed
    echo "| $1 | $(versions "$1") | $result | $installed | $((SECONDS - start)) | $used |"
}

mkdir -p build/doors
export RUNS=$PWD/build/doors/runs # of logged_runs: two doors read them, the first one makes them
rm -rf "$RUNS"
table=build/doors/table.md
printf '%s\n' '| door | versions | result | installing s | checking s | CPU s |' '|---|---|---|---:|---:|---:|' >$table
for door in "${doors[@]}"; do check "$door" >>$table; done
cat $table
! grep -q '| FAILED |' $table
