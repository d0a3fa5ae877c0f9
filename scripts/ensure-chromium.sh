#!/usr/bin/env bash
# See that the tests of the dashboard find a browser; install one where that is possible.
set -euo pipefail

say() { echo "setup: $*" >&2; }

there() { command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; }

if there; then
    exit 0
fi
if [ -n "${CHROMIUM:-}" ]; then
    if [ -x "$CHROMIUM" ]; then
        exit 0
    fi
    say "CHROMIUM is '$CHROMIUM', which is no program."
    exit 1
fi

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing chromium"
    apt-get update -qq >&2 || true
    if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        chromium fonts-dejavu-core >/dev/null; then
        hash -r
        if there; then
            exit 0
        fi
    fi
    say "chromium could not be installed from Debian's packages (are they reachable?)."
fi

say "The tests of the dashboard need chromium, and there is none on PATH. Install it with one of:"
say "  Debian:  sudo apt-get install chromium"
say "  Fedora:  sudo dnf install chromium"
say "  macOS:   brew install --cask chromium"
say "or point CHROMIUM to one that you have, then run make again."
exit 1
