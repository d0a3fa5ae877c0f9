"""The simulated cluster as numbers: operators, machines, network, changes.

The defaults are round figures, not measurements of any system.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from enum import Enum
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from penstock.engines.simulator.arrivals import Arrivals, Poisson
from penstock.engines.simulator.distributions import Constant, Service
from penstock.engines.simulator.queues import Floats, Indices, Numbers
from penstock.errors import InvalidInput


def weighted_counts(places: Numbers, weights: Floats, size: int) -> Floats:
    """Return the sum of the weights at each place."""
    return np.bincount(places, weights, minlength=size).astype(np.float64, copy=False)


class Dispatch(Enum):
    """How a pipeline without keys chooses the instance of a record.

    TURN: in turn; CHANCE: at random; SHARED: one queue for all instances, the first idle one takes
    it.
    """

    TURN = "in-turn"
    CHANCE = "by-chance"
    SHARED = "shared"


@dataclass(frozen=True)
class Keys:
    """The keys of a keyed operator.

    number: of distinct keys; skew: exponent of Zipf's law, 0 for uniform keys; bytes: state of a
    key; dealt: measured shares of the instances, one tuple for each number of instances that was
    seen.
    """

    number: int = 10_000
    skew: float = 0.0
    bytes: float = 100.0
    dealt: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.number < 1 or not (self.skew >= 0 and self.bytes >= 0):
            raise InvalidInput(f"{self}: it takes at least one key, and no number may be negative")

    @cached_property
    def _hashed(self) -> NDArray[np.uint64]:
        words = np.arange(self.number, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        return words ^ (words >> np.uint64(27))

    @cached_property
    def _weights(self) -> Floats:
        weights = np.arange(1.0, self.number + 1) ** -self.skew
        return np.asarray(weights / weights.sum())

    def places(self, instances: int) -> Indices:
        """Return the instance that serves each key."""
        return (self._hashed % np.uint64(instances)).astype(np.intp)

    def shares(self, instances: int) -> Floats:
        """Return the share of the records that goes to each instance.

        A key goes to its hash modulo the number of instances, so the first of two instances serves
        the keys of the first and third of four.
        """
        seen = next((s for s in self.dealt if len(s) % instances == 0), None)
        if seen is not None:
            return np.asarray(np.reshape(seen, (-1, instances)).sum(axis=0) / sum(seen))
        return weighted_counts(self.places(instances), self._weights, instances)

    def draw(self, served: Numbers, instances: int, rng: np.random.Generator) -> Indices:
        """Draw a key for each record among the keys of its instance.

        served: the instance of each record. The key is -1 if its instance serves none.
        """
        places = self.places(instances)
        order = np.argsort(places, kind="stable")
        sums = np.concatenate(([0.0], np.cumsum(self._weights[order])))
        ends = np.cumsum(np.bincount(places, minlength=instances))
        first, end = np.concatenate(([0], ends[:-1]))[served], ends[served]
        at = sums[first] + rng.random(len(served)) * (sums[end] - sums[first])
        found = np.clip(np.searchsorted(sums, at, "right") - 1, first, end - 1)
        return np.where(first < end, order[found], -1)

    def moved(self, before: int, after: int) -> float:
        """Return the share of the keys that change instance with the number of instances."""
        return float(np.mean(self.places(before) != self.places(after)))

    def touched(self, records: float) -> float:
        """Return the mean number of distinct keys among some records."""
        with np.errstate(divide="ignore"):
            missed = records * np.log1p(-np.minimum(self._weights, 1.0))
        return float(-np.expm1(missed).sum())

    def seen(self, records: int) -> int:
        """Return about how many distinct keys have occurred among some records."""
        return round(self.number * -math.expm1(-records / self.number))


@dataclass(frozen=True)
class OperatorCost:
    """The cost of an operator: its service time, selectivity and keys.

    window: seconds over which a continuous operator gathers its output while it goes on working;
    cpu: share of the service time that needs a processor (the rest is waiting, which matters where
    a machine has fewer processors than slots); touch: seconds to read and write the state of one
    distinct key in a batch, however many records the key has.
    """

    service: Service = field(default_factory=Constant)
    selectivity: float = 1.0
    keys: Keys = field(default_factory=Keys)
    _: KW_ONLY
    window: float = 0.0
    cpu: float = 1.0
    touch: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.cpu <= 1:
            raise InvalidInput(f"cpu must be a share between 0 and 1, found {self.cpu:g}")
        if not (self.window >= 0 and math.isfinite(self.window)):
            raise InvalidInput(f"a window must be finite and not negative, found {self.window:g} s")
        if not 0 <= self.touch < math.inf:
            raise InvalidInput(
                f"the time of a key must be finite and not negative, found {self.touch:g} s"
            )
        if not (self.selectivity >= 0 and math.isfinite(self.selectivity)):
            raise InvalidInput(
                f"a selectivity must be finite and not negative, found {self.selectivity:g}"
            )

    @cached_property
    def ratio(self) -> Fraction:
        """The selectivity as an exact fraction, so that whole records come out whole.

        Limited to a denominator of a million: rounding errors of products such as 0.1 * 0.8 would
        otherwise give counts beyond 64-bit integers.
        """
        return Fraction(str(float(self.selectivity))).limit_denominator(1_000_000)


@dataclass(frozen=True)
class Machine:
    """A machine: slots, memory in bytes, and how instances on it disturb each other.

    interference: relative increase of a record's time for each busy slot beside it; spill: factor
    on a record's time once state exceeds memory; processors: processors that batches share (None:
    one a slot); upkeep: share of a core that every instance takes even when idle, for threads that
    wake up and switch; room: instances that are placed on it before another machine with room is
    preferred (None: any number).
    """

    cores: int = 4
    memory: float = 16e9
    interference: float = 0.0
    spill: float = 5.0
    processors: float | None = None
    upkeep: float = 0.0
    room: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.upkeep <= 1:
            raise InvalidInput(f"upkeep must be a share between 0 and 1, found {self.upkeep:g}")
        if self.processors is not None and not 0 < self.processors < math.inf:
            raise InvalidInput(f"a machine needs processors, found {self.processors:g}")


@dataclass(frozen=True)
class Timing:
    """How long changes and recovery take, in seconds; `state_rate` in bytes/s.

    restart: minimum pause of a pipeline; stop: additional pause for each instance of the changed
    pipelines, where all of them stop before the change and resume together (0: a stateless pipeline
    that only changes its number of instances keeps running).
    """

    executor_start: float = 20.0
    instance_start: float = 1.0
    restart: float = 0.5
    stop: float = 0.0
    detection: float = 1.0
    state_rate: float = 100e6


@dataclass(frozen=True)
class MicroBatch:
    """The cost of a micro-batch besides its records, in seconds.

    These are the parameters that `penstock.predict.calibration` fits to recorded Spark runs.

    In order of occurrence: `planning` once a batch, plus `inlet` for each input after the first;
    `log` before the work; `job`, half of it to start and half to finish the work, with `partition`
    for each task or state partition at the start, where all share the driver; `task` to start a
    task on a slot, where also `output` is spent by each task that writes the pipeline's output and
    `state` for each state partition; `row` for each record, on top of its operators. Then the
    output is visible, and only the next batch waits for `commit`. All of it needs a processor,
    except for `idle`, the share of task, output, state and key costs in which a task waits for
    another process or a disk.

    few: records of a task up to which each costs a `row` (None: all); aside: processor seconds a
    batch that nobody waits for, such as reports and cleaning.

    jitter: coefficient of variation of the costs once a batch (without it pipelines fall into step
    with each other, which Spark's do not); poll: interval at which an idle pipeline looks for
    records; pace: seconds of work to which a batch is limited where the plan sets no admission
    (None: unlimited); channel: records between two pipelines, including those of an unfinished
    batch, from which the writer's next batch has to wait (None: unbounded).
    """

    planning: float = 0.04
    log: float = 0.03
    commit: float = 0.04
    partition: float = 0.004
    task: float = 0.01
    row: float = 0.0
    few: float | None = None
    inlet: float = 0.0
    job: float = 0.0
    state: float = 0.0
    output: float = 0.0
    aside: float = 0.0
    idle: float = 0.0
    jitter: float = 0.0
    poll: float = 0.0
    pace: float | None = None
    channel: float | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None and not 0 <= value < math.inf:
                raise InvalidInput(
                    f"{one.name} of a batch must be finite and not negative, found {value:g}"
                )
        if self.idle >= 1:
            raise InvalidInput(f"idle must be a share below 1, found {self.idle:g}")


@dataclass(frozen=True)
class Model:
    """Everything a simulation needs besides the dataflow and its plan.

    costs: by operator; a missing one takes no time. hop: seconds an instance needs to receive
    a record from another pipeline; crowding: addition to it for each other instance of the
    pipeline, for thread contention; send: seconds to hand a record to another pipeline, which a
    source's time already includes. looking: share of idle time that counts as busy because threads
    spin before they sleep, not counted while output is held back. delay: seconds from one pipeline
    to the next in which nobody works; between: additional seconds between executors, weighted by
    the share of instance pairs that are on different ones. queue: records that may wait for an
    instance before its upstream is held back (None: unbounded). batch: None for continuous
    operators, as in Storm or Nephele; then the admission of a source limits how many of its records
    may be in the flow.

    packed: the first plan fills executor after executor, pipeline by pipeline; otherwise each
    instance goes where the fewest are. stays: when executors are added, running instances stay and
    only new instances go there, as in Storm; otherwise they get their share of what runs at once,
    as in Spark. drawn: with `stays`, pipelines of which instances still move to added executors,
    one of each in this order. anew: every plan is placed like a first one, as in Storm's rebalance.
    by_load: new instances go where the load is lowest, not where the fewest are.
    """

    costs: Mapping[str, OperatorCost] = field(default_factory=dict)
    nodes: int = 1
    node: Machine = field(default_factory=Machine)
    arrivals: Arrivals = field(default_factory=Poisson)
    dispatch: Dispatch = Dispatch.TURN
    hop: float = 0.0
    crowding: float = 0.0
    send: float = 0.0
    looking: float = 0.0
    delay: float = 0.0
    between: float = 0.0
    queue: int | None = 10_000
    timing: Timing = field(default_factory=Timing)
    batch: MicroBatch | None = None
    packed: bool = False
    stays: bool = False
    drawn: tuple[str, ...] = ()
    anew: bool = False
    by_load: bool = False

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.node.cores < 1:
            raise InvalidInput(
                f"a cluster needs a node with a core, found {self.nodes} nodes of "
                f"{self.node.cores} cores"
            )
        shortest = min(self.delay, self.between, self.hop, self.crowding, self.send)
        if shortest < 0 or (self.queue is not None and self.queue < 1):
            raise InvalidInput(
                "times must not be negative and queues need a place, found "
                f"{shortest:g} s and {self.queue} records"
            )
        if not 0 <= self.looking <= 1:
            raise InvalidInput(f"looking must be a share between 0 and 1, found {self.looking:g}")

    def cost(self, operator: str) -> OperatorCost:
        """Return the cost of an operator."""
        return self.costs.get(operator, _NO_COST)


_NO_COST = OperatorCost()
