#!/usr/bin/env bash
# Make a virtual environment with the first Python that is new enough.
# Usage: scripts/make-venv.sh DIRECTORY
set -euo pipefail

venv=${1:?give the directory of the virtual environment}

say() { echo "setup: $*" >&2; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

can_make_venvs() { "$1" -c 'import venv, ensurepip' >/dev/null 2>&1; }

if [ -x "$venv/bin/python" ] && new_enough "$venv/bin/python" &&
    "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

# 3.12 and 3.11 first: those are the versions most packages have wheels for.
python=
for candidate in python3.12 python3.11 python3.13 python3 python; do
    if command -v "$candidate" >/dev/null && new_enough "$candidate"; then
        # One that can make environments at once is better than an earlier one that cannot.
        if can_make_venvs "$candidate"; then
            python=$candidate
            break
        fi
        python=${python:-$candidate}
    fi
done
if [ -z "$python" ]; then
    say "Python 3.11 or later is needed and was not found."
    say "Debian, Ubuntu: apt-get install python3 python3-venv; Fedora: dnf install python3; macOS: brew install python@3.12"
    exit 1
fi

if ! can_make_venvs "$python"; then
    # Debian keeps this part of Python in a package of its own, one for each version.
    number=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing python$number-venv"
        apt-get update -qq >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            "python$number-venv" >&2 ||
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
                python3-venv >&2
    fi
    if ! can_make_venvs "$python"; then
        say "$python cannot make virtual environments: its modules venv and ensurepip are missing."
        say "Debian, Ubuntu: sudo apt-get install python$number-venv"
        exit 1
    fi
fi

say "making $venv with $("$python" --version 2>&1)"
rm -rf "$venv"
"$python" -m venv "$venv"
