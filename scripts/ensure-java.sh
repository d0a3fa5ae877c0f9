#!/usr/bin/env bash
# See that Spark will find a Java it can use; install one where that is possible.
set -euo pipefail

least=17

say() { echo "setup: $*" >&2; }

# The feature version of a java command: 17 for 17.0.15, 8 for 1.8.0; 0 if it does not run.
version_of() {
    local said
    said=$("$1" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1) ||
        true
    echo "${said:-0}"
}

fine() { [ "$(version_of "$1")" -ge "$least" ]; }

# Spark looks at JAVA_HOME first, and at nothing else if it is set.
if [ -n "${JAVA_HOME:-}" ]; then
    if [ -x "$JAVA_HOME/bin/java" ] && fine "$JAVA_HOME/bin/java"; then
        exit 0
    fi
    say "JAVA_HOME is '$JAVA_HOME', which holds no Java $least or later, and Spark looks nowhere else."
    say "Point JAVA_HOME to one, or unset it."
    exit 1
fi
if command -v java >/dev/null && fine java; then
    exit 0
fi

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing Java"
    apt-get update -qq >&2 || true
    for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
        if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            "$package" >&2; then
            hash -r
            if command -v java >/dev/null && fine java; then
                exit 0
            fi
        fi
    done
    say "Java could not be installed from Debian's packages (are they reachable?)."
fi

say "Spark needs Java $least or later, and there is none on PATH. Install it with one of:"
say "  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless"
say "  Fedora:          sudo dnf install java-17-openjdk-headless"
say "  macOS:           brew install openjdk@17"
say "or point JAVA_HOME to one that you have, then run make again."
exit 1
