"""Change single places of the code at random, and see whether the tests of the package notice.

Each mutant is one edit of the syntax tree, made in a copy of the repository, where the tests of its
package run: tests/X for src/penstock/X. One that survives changes nothing, or no test looks at it.

    python scripts/mutants.py --count 20 --seed 1 policies control/guard.py
"""

from __future__ import annotations

import argparse
import ast
import copy
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = Path("src/penstock")
LONGEST = 600  # seconds of a test run
PLAIN = "not spark and not ui and not kafka and not extended"
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "site", "runs", "__pycache__", ".*_cache")
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
}


@dataclass(frozen=True)
class Mutant:
    """A file with one edit, which begins in `line`."""

    file: Path
    line: int
    source: bytes

    def __str__(self) -> str:
        both = ((ROOT / self.file).read_text(), self.source.decode())
        old, new = (text.splitlines()[self.line - 1].strip() for text in both)
        return f"{self.file}:{self.line}\n    - {old}\n    + {new}"


def edits(node: ast.AST) -> Iterator[ast.AST]:
    """What a node may become."""
    changed = copy.deepcopy(node)
    match changed:
        case ast.Compare(ops=[op, *_]) if type(op) in SWAPS:
            changed.ops[0] = SWAPS[type(op)]()
        case ast.BoolOp() | ast.BinOp() if type(changed.op) in SWAPS:
            changed.op = SWAPS[type(changed.op)]()
        case ast.Constant(value=int() | float() as value):
            changed.value = not value if isinstance(value, bool) else value + 1
        case ast.Expr(value=ast.Call()):
            changed = ast.Pass()
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            changed.value = ast.Constant(None)
        case ast.UnaryOp(op=ast.Not()):
            changed = changed.operand
        case _:
            return
    yield changed


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes worth an edit. Those of f-strings have no place before Python 3.12."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list") or isinstance(tree, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and "TYPE_CHECKING" not in ast.unparse(child)[:20]:
                yield child
                yield from nodes(child)


def mutants(file: Path) -> Iterator[Mutant]:
    """All mutants of a file."""
    source = (ROOT / file).read_bytes()
    starts = [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))]
    for node in nodes(ast.parse(source)):
        for edit in edits(node) if hasattr(node, "lineno") else ():
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            text = ast.unparse(edit)
            text = f"({text})" if isinstance(edit, ast.BoolOp | ast.BinOp | ast.Compare) else text
            yield Mutant(file, node.lineno, source[:start] + text.encode() + source[end:])


def tests_of(file: Path) -> Path:
    """The tests of a module: those of the nearest package that has some."""
    for package in file.relative_to(CODE).with_suffix("").parents:
        if (ROOT / "tests" / package).is_dir() and package != Path():
            return Path("tests") / package
    return Path("tests") / f"test_{file.stem}.py"


def passes(home: Path, tests: Path) -> bool:
    """True if the tests pass in a copy of the repository; a run that takes too long fails."""
    options = f"-x -q -p no:cacheprovider --hypothesis-profile=repeatable {tests} -m"
    command = [sys.executable, "-m", "pytest", *options.split(), PLAIN]
    paths = os.pathsep.join(str(home / part) for part in ("src", "lab/src"))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=home, env=environment, timeout=LONGEST, stdout=subprocess.DEVNULL
        )
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description="Report which edits the tests notice.")
    parser.add_argument("packages", nargs="*", default=["."], help="folders or files in penstock")
    parser.add_argument("--count", type=int, default=20, help="number of mutants (20)")
    parser.add_argument("--seed", type=int, default=1, help="random seed (1)")
    given = parser.parse_args()
    chosen = [ROOT / CODE / package for package in given.packages]
    files = [f for one in chosen for f in ([one] if one.is_file() else sorted(one.rglob("*.py")))]
    files = [f.relative_to(ROOT) for f in files]
    known = [m for f in files if (ROOT / tests_of(f)).exists() for m in mutants(f)]
    drawn = random.Random(given.seed).sample(known, min(given.count, len(known)))
    caught: list[bool] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        home = Path(folder) / "repository"
        shutil.copytree(ROOT, home, ignore=LEFT_OUT, symlinks=True)
        sound = {t: passes(home, t) for t in {tests_of(m.file) for m in drawn}}
        for one in drawn:
            tests = tests_of(one.file)
            if not sound[tests]:
                print(f"skipped   {one}\n    {tests} fails without an edit", flush=True)
                continue
            (home / one.file).write_bytes(one.source)
            caught.append(not passes(home, tests))
            shutil.copyfile(ROOT / one.file, home / one.file)
            print(f"{'caught  ' if caught[-1] else 'SURVIVED'}  {one}", flush=True)
    print(f"{sum(caught)} of {len(caught)} caught, {len(known):,} possible")


if __name__ == "__main__":
    main()
