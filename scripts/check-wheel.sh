#!/usr/bin/env bash
# Install the wheel of penstock alone in an empty environment and use it: check the machine, run a
# flow from a file on Spark, and see that the workloads and experiments are named as missing. Then
# install the wheel of penstock-lab beside it. Prints the sizes of both wheels.
# Usage: scripts/check-wheel.sh
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-$([ -x .venv/bin/python ] && echo "$PWD/.venv/bin/python" || echo python3)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "check-wheel: $*" >&2; }
trap 'say "line $LINENO failed: $BASH_COMMAND"' ERR

"$python" -m venv "$work/venv"
pip() { "$work/venv/bin/pip" --quiet --disable-pip-version-check "$@"; }
pip wheel --no-deps --wheel-dir "$work/wheels" . ./lab
for wheel in "$work"/wheels/*.whl; do
    modules=$("$python" -m zipfile --list "$wheel" | grep -c '\.py ')
    say "$(basename "$wheel"): $(($(wc -c <"$wheel") / 1000)) kB, $modules modules"
done
pip install "$work"/wheels/penstock-*.whl

cat >"$work/flow.py" <<'END'
"""Counts generated numbers by their last digit."""

from pyspark.sql import functions as F

from penstock import Dataflow, Discard, Generator


def numbers(rng, index, at):
    return {"number": index}


flow = Dataflow("digits")
(
    flow.source("numbers", Generator(numbers, "number bigint", load="200/s", limit=2000))
    .frame("digits", lambda rows: rows.select((F.col("number") % 10).alias("digit")))
    .sink("out", Discard())
)
END

cd "$work"
penstock=$work/venv/bin/penstock
"$penstock" --version
"$penstock" doctor
"$penstock" run flow.py --no-view --json >summary.json
"$work/venv/bin/python" - <<'END'
import json

summary = json.load(open("summary.json"))
assert summary["rows_delivered"] == 2000, summary
END

for words in "run wordcount" "experiment" "experiment list"; do
    if "$penstock" $words >out.txt 2>&1; then
        say "penstock $words should have failed without the lab" && exit 1
    fi
    if [ "$(wc -l <out.txt)" != 1 ] || ! grep -q "pip install penstock-lab" out.txt; then
        say "penstock $words should say in one line how to install the lab, and said:"
        cat out.txt >&2
        exit 1
    fi
done
pip install "$work"/wheels/penstock_lab-*.whl --find-links "$work/wheels"
# To files: `grep -q` in a pipe ends at the first match, and penstock exits with 1 if nobody reads.
"$penstock" workloads >workloads.txt
grep -q wordcount workloads.txt
"$penstock" experiment list >experiments.txt
grep -q nephele-3 experiments.txt
say "both wheels work"
