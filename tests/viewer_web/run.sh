#!/usr/bin/env bash
# The viewer's page in Debian's Chromium: journeys, accessibility, hostile texts, 100,000 episodes,
# and the pictures of the documentation.
#
#   tests/viewer_web/run.sh [ARGS OF PYTEST]     (makes .venv-viewer when it is missing or old)
#   tests/viewer_web/run.sh --install            (makes it and runs nothing)
#   PICTURES=docs/pictures/viewer tests/viewer_web/run.sh tests/viewer_web/test_pictures.py
#
# The environment has Node, esbuild and axe-core (src/rehearsal_room/viewer/web/build.sh) and Playwright for
# Python, which drives the Chromium that Debian's package installs.
set -euo pipefail
cd "$(dirname "$0")/../.."

missing=()
command -v chromium >/dev/null || missing+=(chromium)
if [ ${#missing[@]} -gt 0 ] || ! fc-list 2>/dev/null | grep -q Inter; then
    if ! command -v apt-get >/dev/null; then
        echo "missing: chromium and the font Inter; install them with your system's packages" >&2
        exit 1
    fi
    sudo=$([ "$(id -u)" = 0 ] || echo sudo)
    $sudo apt-get update -qq
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" fontconfig fonts-inter fonts-jetbrains-mono >/dev/null
fi
src/rehearsal_room/viewer/web/build.sh --install
[ "${1:-}" != --install ] || exit 0
# A test mostly waits for a page, so two at once take little more than half of the time.
[ $# -gt 0 ] || set -- -p tests.support.forked_workers --forks 2 tests/viewer_web
exec .venv-viewer/bin/python -m pytest "$@"
