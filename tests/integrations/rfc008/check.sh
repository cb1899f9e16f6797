#!/usr/bin/env bash
# OpenEnv's report model reads `scenarios check --report openenv` (check.sh PYTHON). The package is
# installed alone, since this needs none of the packages that it asks for.
set -euo pipefail
python=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r tests/fixtures/worlds/library "$work/broken"
sed -i 's/^name = "library"/name = "broken"/' "$work/broken/scenario.toml"
sed -i 's/check.updated/check.was_not/; s/check.answer_has/check.says_not/' "$work/broken/verify.py"
.venv/bin/rehearse scenarios check tests/fixtures/worlds/library --report openenv -o "$work/library.json"
.venv/bin/rehearse scenarios check "$work/broken" --report openenv -o "$work/broken.json" && exit 1
"$python" tests/integrations/rfc008/reader.py "$work/library.json" "$work/broken.json"
