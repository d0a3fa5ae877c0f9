"""Carries out any experiment: its cases, then table and picture."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from penstock import text
from penstock.errors import InvalidInput, Refused
from penstock_lab.experiments import many, times
from penstock_lab.experiments.experiment import Case, EngineName, Experiment, Record, Setting
from penstock_lab.experiments.store import Store
from penstock_lab.experiments.table import Row
from penstock_lab.experiments.verdict import ROUNDS


@dataclass(frozen=True)
class Order:
    """How experiments are to be carried out.

    out: each has a directory of its name in it; quick: a smaller size, which there is on the
    simulator alone; jobs: how many cases at a time, on the simulator; rounds: how often all cases
    run on Spark. On the simulator a case gives the same whenever it is repeated.
    """

    out: Path
    seed: int = 1
    quick: bool = False
    engine: EngineName = "simulator"
    pictures: bool = True
    jobs: int = 1
    rounds: int = ROUNDS

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InvalidInput(f"--seed {self.seed}: a whole number from 0 on")
        if self.quick and self.engine == "spark":
            raise InvalidInput("--quick is of the simulator: on Spark there is one size")
        if self.rounds < 1:
            raise InvalidInput(f"--rounds {self.rounds}: at least one")

    def command(self, name: str) -> str:
        """What a person types to do the same again."""
        words = ["penstock", "experiment", name, "--seed", str(self.seed)]
        words += ["--quick"] if self.quick else []
        if self.engine == "spark":
            words += ["--engine", "spark", "--rounds", str(self.rounds)]
        return " ".join([*words, "--out", str(self.out)])


def carry_out(
    experiment: Experiment, order: Order, tell: Callable[[str, float], None] = lambda *_: None
) -> tuple[Row, ...]:
    """Run all cases, keep their records, make the table and the picture.

    tell: is called with the case under way and the share of the experiment that is done. A Ctrl-C
    leaves the cases that are done and a table of them in a directory of their own, beside what was
    complete before.
    """
    parameters = experiment.parameters(order.engine, order.quick)
    cases = experiment.made(order.engine, parameters)
    if not cases:
        raise Refused(f"{experiment.name} is not shown on Spark: {experiment.no_spark}")
    store = Store(order.out / experiment.name)
    with store.held():
        _run(experiment, order, store, cases, parameters, tell)
        try:
            return store.make(experiment, order.pictures)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"stopped; all cases are done and in {store.home}, not all is drawn"
            ) from None


def _run(
    experiment: Experiment,
    order: Order,
    store: Store,
    cases: Sequence[Case],
    parameters: Mapping[str, Any],
    tell: Callable[[str, float], None],
) -> None:
    """Carry out all cases and keep their records."""
    engine, began = order.engine, time.monotonic()
    command, rounds = order.command(experiment.name), order.rounds if engine == "spark" else 1
    planned = rounds * len(cases)
    draft = store.begin(experiment, engine, order.seed, parameters, command, planned)
    try:
        if engine == "spark":
            _on_spark(experiment, order, draft, cases, tell)
        else:
            alone = order.jobs == 1 or len(cases) == 1
            carried = (
                _in_turn(cases, order.seed, tell)
                if alone
                else many.carried_out(cases, order.seed, order.jobs, tell)
            )
            with contextlib.closing(carried):
                for case, records in carried:
                    draft.add(experiment, engine, case.name, records)
    except KeyboardInterrupt:
        draft.make(experiment, pictures=False)
        raise KeyboardInterrupt(f"stopped; the cases that are done are in {draft.home}") from None
    store.end(experiment, engine, time.monotonic() - began)


def _on_spark(
    experiment: Experiment,
    order: Order,
    draft: Store,
    cases: Sequence[Case],
    tell: Callable[[str, float], None],
) -> None:
    """All cases round by round, the first of them once before, for nothing.

    A JVM is slow until it has run for a while, which the case that comes first would bear: so
    nothing is kept of the very first run, and each round begins with another case.
    """
    runs = [(None, cases[0]), *rotated(cases, order.rounds)]
    carried = _in_turn([case for _, case in runs], order.seed, tell)
    with contextlib.closing(carried):
        for (number, _), (case, records) in zip(runs, carried, strict=True):
            if number is not None:
                draft.add(experiment, "spark", case.name, records, number)


def rotated(cases: Sequence[Case], rounds: int) -> list[tuple[int, Case]]:
    """The cases as often as there are rounds, each round beginning with the next of them."""
    found = []
    for number in range(rounds):
        first = number % len(cases)
        found += [(number, case) for case in (*cases[first:], *cases[:first])]
    return found


def _in_turn(
    cases: Sequence[Case], seed: int, tell: Callable[[str, float], None]
) -> Generator[tuple[Case, list[Record]]]:
    """The cases and their records, all in this process."""
    for number, case in enumerate(cases):

        def told(share: float, number: int = number, name: str = case.name) -> None:
            tell(name, (number + share) / len(cases))

        told(0.0)
        with tempfile.TemporaryDirectory(prefix="penstock-") as scratch:
            yield case, [*case.job(Setting(seed, Path(scratch), told))]


class Progress:
    """One line that says how far everything is, and about how long the rest will take.

    weights: the experiments in their order, and how much of the work each is. How long the rest
    takes is told as soon as a part is done that says so: a quarter of the work, or experiments as
    a whole that are a twentieth of it, as cases of one may be unequal. On a terminal the line is
    written over, elsewhere a new one comes every `every` seconds.
    """

    def __init__(self, out: TextIO, weights: Mapping[str, float], every: float = 15.0) -> None:
        self._out, self._weights = out, dict(weights)
        self._live = out.isatty()
        self._every = 0.2 if self._live else every
        self._began = time.monotonic()
        self._written = -float("inf")

    def of(self, name: str) -> Callable[[str, float], None]:
        """What one of the experiments is to tell."""
        names, total = list(self._weights), sum(self._weights.values())
        at = names.index(name)
        before = sum(self._weights[one] for one in names[:at]) / total

        def tell(case: str, share: float) -> None:
            now = time.monotonic()
            if now - self._written < self._every:
                return
            self._written = now
            done, left = before + share * self._weights[name] / total, ""
            if before >= 0.05 or done >= 0.25:
                rest = (now - self._began) * (1 - done) / done
                left = f", about {times.about(rest)} left"
            which = f"{at + 1}/{len(names)} " if len(names) > 1 else ""
            self._write(f"{which}{name}: {case}, {text.share(done)}{left}")

        return tell

    def say(self, line: str) -> None:
        """A line that stays."""
        self._write(line)
        if self._live:
            print(file=self._out, flush=True)

    def _write(self, line: str) -> None:
        if self._live:
            print(f"\r{text.cut(line, 78):<78}", end="", file=self._out, flush=True)
        else:
            print(line, file=self._out, flush=True)
