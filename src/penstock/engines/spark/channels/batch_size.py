"""How many rows a batch may have, so that none takes much longer than a window.

A change takes effect with the next batch, and a batch is measured when it is done: one that works
off a whole backlog would keep a flow from being seen and from being changed for minutes.
"""

from __future__ import annotations

from penstock.plan.plan import Pipeline

_FEW = 50
"""Rows for each instance of which nobody knows what they take."""


_FASTER = 10
"""So many times as many rows as in the batch before, at most."""


class Pace:
    """Remembers what a row took, so that a changed pipeline has the right batches from the first.

    Pipelines that were never measured are taken to need what those need that had their operators.
    Where that is not known either, those with Python operators, whose rows may take any time,
    begin with a few rows, and with ever more as long as batches are short.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._services: dict[tuple[str, ...], float] = {}

    def learn(self, operators: tuple[str, ...], service: float) -> None:
        """Seconds of an instance for a row; what was known of other pipelines with these is old."""
        own = set(operators)
        kept = {o: s for o, s in self._services.items() if own.isdisjoint(o)}
        self._services = {**kept, operators: service}

    def admission(self, spec: Pipeline, python: bool = False) -> int | None:
        """Rows for a batch: as asked for, or as many as fit a window; None: as many as there are.

        python: whether it has Python operators.
        """
        if spec.admission is not None:
            return spec.admission
        own = set(spec.operators)
        service = sum(s for o, s in self._services.items() if not own.isdisjoint(o))
        if not service:
            return _FEW * spec.parallelism if python else None
        return max(1, round(spec.parallelism * self._window / service))

    def hastened(self, spec: Pipeline, admission: int | None, rows: int, seconds: float) -> int:
        """Rows for the next batch after one with so many rows; 0: as before.

        For a pipeline that was never measured and has had what it was allowed, or half of it.
        """
        unknown = spec.admission is None and spec.operators not in self._services
        if not unknown or admission is None or rows < admission // 2:
            return 0
        more = round(rows * min(_FASTER, self._window / max(seconds, 0.001)))
        return more if more > admission else 0
