#!/usr/bin/env bash
# A release in dist/: the wheel and the sdist, an SBOM of what the wheel installs and one of all
# extras, and the checksums. Every package is checked against its hash in locks/.
#
#   tests/release/run.sh            (a minute)
#   tests/release/run.sh --audit    known vulnerabilities of all pinned packages; asks PyPI
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=.venv-release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

checked_install() { # into the environment of this Python, from files of requirements with hashes
    "$1" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: "${@:2}"
}

[ -x $tools/bin/python ] || "${PYTHON:-python3}" -m venv $tools
checked_install $tools/bin/python -r locks/release.txt

if [ "${1:-}" = --audit ]; then
    for file in locks/*.txt; do
        echo "$file"
        $tools/bin/pip-audit --require-hashes --disable-pip --requirement "$file"
    done
    exit
fi

python=${PYTHON:-python3}
$python -m tests.release.version ${TAG:+"$TAG"}
rm -rf dist
mkdir dist "$work/source"
git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
    tar --null -T - -cf - | tar -xf - -C "$work/source"
$tools/bin/python -m build --no-isolation --outdir dist "$work/source" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
wheel=$(cd dist && echo *.whl)
version=$(cut -d- -f2 <<<"$wheel")
$python tests/install/check_files.py "dist/$wheel" "dist/rehearsal_room-$version.tar.gz"

# The wheel and what it needs, installed as a user would who checks hashes.
$python -m venv "$work/venv"
echo "rehearsal-room==$version --hash=sha256:$(sha256sum "dist/$wheel" | cut -d' ' -f1)" >"$work/wheel.txt"
checked_install "$work/venv/bin/python" --find-links dist -r locks/core.txt -r "$work/wheel.txt"
(cd "$work" && venv/bin/rehearse scenarios list --json worlds.json >/dev/null)

describe() { # an SBOM (CycloneDX, JSON), and of what
    $tools/bin/cyclonedx-py "${@:2}" --pyproject pyproject.toml --output-reproducible \
        --output-format JSON --output-file "dist/$1"
}
describe "rehearsal_room-$version.cdx.json" environment "$work/venv"
describe "rehearsal_room-$version-extras.cdx.json" requirements locks/extras.txt
(cd dist && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS . && cat SHA256SUMS)
