"""What is simulated, as numbers: operators, machines, the network, and what changes cost.

The defaults are round figures, not those of any system.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator.arrays import Floats
from penstock.engines.simulator.arrivals import Arrivals, Poisson
from penstock.engines.simulator.distributions import Constant, Service
from penstock.errors import InvalidInput


def weighed(places: npt.NDArray[np.integer[Any]], weights: Floats, size: int) -> Floats:
    """The sum of weights at each place."""
    return np.bincount(places, weights, minlength=size).astype(np.float64, copy=False)


class Dispatch(Enum):
    """Which instance of a pipeline without keys a record goes to.

    In turn; by chance; or to whichever is free first, from a queue that all instances share.
    """

    TURN = "in-turn"
    CHANCE = "by-chance"
    SHARED = "shared"


@dataclass(frozen=True)
class Keys:
    """The keys of a keyed operator: how many, how unevenly they come, what each keeps.

    skew: exponent of Zipf's law, 0 for keys that are all alike; bytes: state of a key; dealt: the
    shares of the records that instances had, for each number of instances that was seen.
    """

    number: int = 10_000
    skew: float = 0.0
    bytes: float = 100.0
    dealt: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.number < 1 or not (self.skew >= 0 and self.bytes >= 0):
            raise InvalidInput(f"{self} cannot be: at least one key, nothing negative")

    @cached_property
    def _hashed(self) -> npt.NDArray[np.uint64]:
        words = np.arange(self.number, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        return words ^ (words >> np.uint64(27))

    @cached_property
    def _weights(self) -> Floats:
        weights = np.arange(1.0, self.number + 1) ** -self.skew
        return np.asarray(weights / weights.sum())

    def places(self, instances: int) -> npt.NDArray[np.intp]:
        """The instance that serves each key."""
        return (self._hashed % np.uint64(instances)).astype(np.intp)

    def shares(self, instances: int) -> Floats:
        """The share of the records that goes to each instance.

        A key goes to the rest of its hash divided by the number of instances, so of two instances
        the first has what the first and the third of four have.
        """
        seen = next((s for s in self.dealt if len(s) % instances == 0), None)
        if seen is not None:
            return np.asarray(np.reshape(seen, (-1, instances)).sum(axis=0) / sum(seen))
        return weighed(self.places(instances), self._weights, instances)

    def drawn(
        self, served: npt.NDArray[np.integer[Any]], instances: int, rng: np.random.Generator
    ) -> npt.NDArray[np.intp]:
        """A key for each record, of those that its instance serves; -1 if that serves none."""
        places = self.places(instances)
        order = np.argsort(places, kind="stable")
        sums = np.concatenate(([0.0], np.cumsum(self._weights[order])))
        ends = np.cumsum(np.bincount(places, minlength=instances))
        first, end = np.concatenate(([0], ends[:-1]))[served], ends[served]
        at = sums[first] + rng.random(len(served)) * (sums[end] - sums[first])
        found = np.clip(np.searchsorted(sums, at, "right") - 1, first, end - 1)
        return np.where(first < end, order[found], -1)

    def moved(self, before: int, after: int) -> float:
        """The share of the keys that another number of instances puts elsewhere."""
        return float(np.mean(self.places(before) != self.places(after)))

    def touched(self, records: float) -> float:
        """How many keys come up among so many records, on average."""
        with np.errstate(divide="ignore"):
            missed = records * np.log1p(-np.minimum(self._weights, 1.0))
        return float(-np.expm1(missed).sum())

    def seen(self, records: int) -> int:
        """About how many keys have come up among so many records."""
        return round(self.number * -math.expm1(-records / self.number))


@dataclass(frozen=True)
class Step:
    """An operator: the time of a record, the records out for one in, its keys if it has any.

    window: seconds over which it gathers what it makes, where operators run all the time; it goes
    on working meanwhile. cpu: the share of the time that needs a processor; the rest is waiting,
    for which a record needs nothing. It matters where a machine has fewer processors than slots.
    touch: seconds for each key that comes up in a batch, however many records it has: its state is
    read and written.
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
            raise InvalidInput(f"{self.cpu:g} is not a share of time on a processor")
        if not (self.window >= 0 and math.isfinite(self.window)):
            raise InvalidInput(f"a window of {self.window:g} s is not 0 s or more")
        if not 0 <= self.touch < math.inf:
            raise InvalidInput(f"a key cannot take {self.touch:g} seconds")
        if not (self.selectivity >= 0 and math.isfinite(self.selectivity)):
            raise InvalidInput(f"a selectivity of {self.selectivity:g} is not 0 or more")

    @cached_property
    def ratio(self) -> Fraction:
        """The selectivity as it is written, so that whole records come out whole.

        To a millionth: what is left of a product of numbers such as 0.1 * 0.8 is not meant, and
        would make counts too large for whole numbers of 64 bits.
        """
        return Fraction(str(float(self.selectivity))).limit_denominator(1_000_000)


@dataclass(frozen=True)
class Node:
    """A machine: slots, bytes of memory, and how instances on it get in each other's way.

    interference: by how much a record takes longer for each busy slot beside it, as a share;
    spill: how many times as long a record takes once state does not fit into memory; processors:
    what batches really share (None: one for each slot); upkeep: the share of a core that every
    instance takes whether it works or not, for threads that are woken and switched; room:
    instances that are put there while others have room (None: any number).
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
            raise InvalidInput(f"an upkeep of {self.upkeep:g} is not a share of a core")
        if self.processors is not None and not 0 < self.processors < math.inf:
            raise InvalidInput(f"a machine with {self.processors:g} processors cannot be")


@dataclass(frozen=True)
class Timing:
    """What takes time when something changes or breaks, in seconds, and bytes a second.

    restart: for which a pipeline stands still at least; stop: so many more for each instance of
    the pipelines that a change is about, where all of them stop before anything is changed and go
    on together (0: those that are only given other instances, and have no state, go on meanwhile).
    """

    executor_start: float = 20.0
    instance_start: float = 1.0
    restart: float = 0.5
    stop: float = 0.0
    detection: float = 1.0
    state_rate: float = 100e6


@dataclass(frozen=True)
class MicroBatch:
    """What a batch costs beside its records, in seconds: the parameters that Spark is fitted with.

    In the order in which they come: planning, once a batch, and `inlet` for each input after the
    first; log, before the work; job, half of it to begin and half to end the work, and to begin
    it also `partition` for each task or part of state, where all share the driver; task, to start
    a task on a slot, and there also output, for each task that writes what leaves the pipeline, and
    state, for each part of state; row, for a record, on top of what its operators take. Then the
    output is there, and only the next batch waits for commit. All of it needs a processor, but for
    `idle`, a share of what is for tasks, output, state and keys: so long a task waits for another
    process or a disk.

    few: of so many records of a task each costs a `row` (None: of all); aside: seconds on a
    processor for a batch that nobody waits for, such as reports and cleaning.

    jitter: coefficient of variation of what is once a batch; without it pipelines fall into step
    with each other, which those of Spark do not. poll: how often one that is idle looks for
    records. pace: seconds of work that a batch is cut to
    where the plan sets no admission (None: never). channel: records between two pipelines, those
    of a batch that is not through yet among them, from which on the writer's next batch has to
    wait (None: never).
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
                raise InvalidInput(f"a batch cannot have a {one.name} of {value:g}")
        if self.idle >= 1:
            raise InvalidInput(f"tasks cannot wait for {self.idle:g} of their time: less than 1")


@dataclass(frozen=True)
class Model:
    """Everything that a simulation needs to know beside the dataflow and its plan.

    steps: by operator; one that is missing takes no time. hop: seconds that an instance needs for
    each record it takes from another pipeline, beside its operators; crowding: and so many more for
    each other instance of its pipeline, as threads get in each other's way; send: and for each
    record that it gives to another, which the time of a source includes; looking: the share of its
    time for which an instance that is not full looks for records that are not there, which counts
    as busy, as of threads that go round before they sleep, and not of those that are held back;
    delay: seconds from one pipeline to the next, in which nobody works; between: seconds more if
    that is on another executor, of which every record has the mean over all pairs of instances;
    queue: records that may wait for an instance before what feeds it is held back (None: without a
    bound); batch: None for operators that run all the time, as in Storm or Nephele. For these the
    admission of a source is how many of its records may be under way in the flow. packed: the first
    plan fills executor after executor, one pipeline after the other, where instances are else put
    where the fewest are. stays: when executors come, what runs stays where it is, as in Storm, and
    only new instances go there; else they get their share of what runs at once, as in Spark. drawn:
    what stays all the same but for instances of these pipelines, of which executors that come get
    their share, one of each in this order. anew: nothing stays, every plan is placed as a first one
    would be, as Storm does when it rebalances. by_load: new instances go where the least is to do,
    not the fewest are.
    """

    steps: Mapping[str, Step] = field(default_factory=dict)
    nodes: int = 1
    node: Node = field(default_factory=Node)
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
            raise InvalidInput(f"{self.nodes} nodes of {self.node.cores} cores are no cluster")
        shortest = min(self.delay, self.between, self.hop, self.crowding, self.send)
        if shortest < 0 or (self.queue is not None and self.queue < 1):
            raise InvalidInput(
                f"a delay of {shortest:g} s and queues of {self.queue} records cannot be"
            )

        if not 0 <= self.looking <= 1:
            raise InvalidInput(f"{self.looking:g} is not a share of time")

    def step(self, operator: str) -> Step:
        return self.steps.get(operator, _NO_COST)


_NO_COST = Step()
