"""Adds and removes executors, and assigns state partitions to them.

Spark keeps state on the executor that first held it. To move it, another executor is reported to
Spark's state store coordinator, which Spark asks before each batch: the tasks of the next batch run
there and load what is missing from the checkpoint. No query restarts.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock.errors import InvalidInput, Refused
from penstock.plan.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE = 60.0
_CROWD = 16

_come: set[str] = set()
"""Applications whose first executors have registered; some may be released since."""

Wait = Callable[[Callable[[], bool]], None]
Placement = Mapping[int, str | None]
"""Executor that holds each state partition; None if unknown."""


class ClusterExecutors:
    """Executors of one session. A local master always counts as one executor.

    dynamic: Spark's dynamic allocation alone decides on their number; released: executors that were
    removed on request, so that they do not count as lost.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._context: Any = spark.sparkContext._jsc.sc()
        self._conf: Any = spark._jsparkSession.sessionState().conf()
        self.fixed = str(spark.sparkContext.master).split("[")[0] == "local"
        asked = self._context.conf().getBoolean("spark.dynamicAllocation.enabled", False)
        self.dynamic = bool(asked) and not self.fixed
        self.released: set[str] = set()

    def ready(self) -> int:
        """Wait for the executors that a new session requested; return their number.

        Later calls for the same application wait for one executor only, since an earlier plan may
        have released the others.
        """
        name, expected = str(self._context.applicationId()), self._expected()
        if name in _come:
            expected = min(1, expected)
        end = time.monotonic() + _PATIENCE
        while len(self.ids()) < expected and time.monotonic() < end:
            time.sleep(0.05)
        if expected and not self.ids():
            raise InvalidInput(
                f"the cluster at {self._context.master()} gave no executor in {_PATIENCE:.0f} s"
            )
        _come.add(name)
        return self.there

    def _expected(self) -> int:
        """Number of executors that register before there is any work."""
        conf = self._context.conf()
        if self.dynamic:
            least = ("dynamicAllocation.minExecutors", "dynamicAllocation.initialExecutors")
            return max(int(conf.getInt(f"spark.{n}", 0)) for n in (*least, "executor.instances"))
        cluster = re.match(r"local-cluster\[\s*(\d+)", str(self._context.master()))
        return int(cluster[1]) if cluster else int(conf.getInt("spark.executor.instances", 1))

    @property
    def there(self) -> int:
        """Number of executors, at least 1: Spark may request the first one later."""
        return max(1, len(self.ids()))

    def ids(self) -> tuple[str, ...]:
        """Ids of all executors, oldest first."""
        if self.fixed:
            return ("driver",)
        found = self._context.getExecutorIds()
        return tuple(sorted((found.apply(i) for i in range(found.size())), key=_age))

    def check(self, wanted: int, leaving: Iterable[str] = (), now: int | None = None) -> None:
        """Raise `Refused` for an impossible number, or an unknown name in `leaving`.

        now: executors of the plan in force, None to skip the check of dynamic allocation.
        """
        if self.fixed and wanted != 1:
            raise Refused(
                f"a local master is one executor, {wanted} are wanted; give a cluster with --master"
            )
        if self.dynamic and now is not None and wanted != now:
            raise Refused(
                "Spark's dynamic allocation decides on the executors of this session; "
                "turn spark.dynamicAllocation.enabled off to decide on them here"
            )
        there = self.ids()
        for name in leaving:
            if name not in there:
                raise Refused(
                    f"there is no executor '{name}'; the executors are {', '.join(there)}"
                )

    def check_size(self, plan: Plan) -> None:
        """Raise `Refused` if instances or state partitions far exceed the slots.

        Such numbers must be a mistake.
        """
        slots = self._slots() * max(1, plan.executors) // max(1, len(self.ids()))
        most = _CROWD * max(slots, 4)
        for pipeline in plan.pipelines:
            for what, number in (
                ("instances", pipeline.parallelism),
                ("parts of state", pipeline.ceiling or 0),
            ):
                if number > most:
                    raise Refused(
                        f"pipeline '{pipeline.name}' is to have {number} {what}; where "
                        f"{slots} tasks can run at once, {most} is the most"
                    )

    @cached_property
    def heap(self) -> int | None:
        """Heap size of one executor in bytes."""
        if self.fixed:
            return int(self._jvm.java.lang.Runtime.getRuntime().maxMemory())
        return int(self._context.executorMemory()) * 2**20

    def at_once(self, slots: int) -> int:
        """Usable slots: a local master may have more slots than processors."""
        return min(slots, os.cpu_count() or 1) if self.fixed else slots

    def _slots(self) -> int:
        """Number of slots of all executors, at least 1."""
        return max(1, sum(int(e.totalCores()) for e in self._known()))

    def _known(self) -> list[Any]:
        """Spark's statistics of each executor."""
        found = self._context.statusStore().executorList(True)
        return [found.apply(i) for i in range(found.size())]

    def grow(self, total: int, wait: Wait) -> None:
        """Add executors up to `total`. Raises `Refused` if the cluster has no room."""
        before = len(self.ids())
        self._request(total)
        end = time.monotonic() + _PATIENCE
        wait(lambda: len(self.ids()) >= total or time.monotonic() > end)
        now = len(self.ids())
        if now < total:
            self._request(max(before, now))
            raise Refused(
                f"the cluster gave {now} of {total} executors in {_PATIENCE:.0f} s: it has no "
                "room for more"
            )

    def shrink(self, total: int, leaving: Sequence[str], held: Counter[str], wait: Wait) -> None:
        """Remove executors down to `total`: first `leaving`, then those with least state."""
        there = self.ids()
        gone = chosen(there, total, leaving, held)
        if not gone:
            return
        names = self._jvm.PythonUtils.toSeq(list(gone))
        if not self._context.killExecutors(names):
            raise Refused(f"Spark does not let go of executors {', '.join(gone)}")
        self.released.update(gone)
        end = time.monotonic() + _PATIENCE
        wait(lambda: not set(gone) & set(self.ids()) or time.monotonic() > end)

    def _request(self, total: int) -> None:
        nothing = self._jvm.PythonUtils.toScalaMap({})
        if not self._context.requestTotalExecutors(total, 0, nothing):
            raise Refused(f"the cluster does not take a request for {total} executors")

    # --- state ------------------------------------------------------------------------------

    def placement(self, query: Any, parts: int) -> dict[int, str | None]:
        """Executor of each state partition of a query, as known to Spark."""
        coordinator = self._coordinator
        where = {}
        for part in range(parts):
            found = coordinator.getLocation(self._stores(query, part)[0])
            where[part] = found.get().rpartition("_")[2] if found.isDefined() else None
        return where

    def place(self, query: Any, where: Mapping[int, str]) -> None:
        """Assign state partitions of a query to executors from the next batch on."""
        hosts, coordinator = self._hosts(), self._coordinator
        nobody = self._jvm.PythonUtils.toSeq([])
        for part, executor in where.items():
            for store in self._stores(query, part):
                coordinator.reportActiveInstance(store, hosts[executor], executor, nobody)

    def _stores(self, query: Any, part: int) -> list[Any]:
        """Spark's ids of the stores of a state partition: one, or four for a join."""
        folder = f"{query.resolvedCheckpointRoot()}/state"
        inside = Path(urlsplit(folder).path) / "0" / str(part)
        names = [side.name for side in inside.glob("*-key*")] or ["default"]
        run = query.runId()
        ids = (self._state.StateStoreId(folder, 0, part, name) for name in names)
        return [self._state.StateStoreProviderId(store, run) for store in ids]

    @property
    def _coordinator(self) -> Any:
        return self._state.StateStoreCoordinatorRef.forDriver(self._context.env(), self._conf)

    @property
    def _state(self) -> Any:
        return self._jvm.org.apache.spark.sql.execution.streaming.state

    def _hosts(self) -> dict[str, str]:
        return {e.id(): e.hostPort().rpartition(":")[0] for e in self._known()}


def chosen(
    there: Sequence[str], total: int, leaving: Sequence[str], held: Counter[str]
) -> tuple[str, ...]:
    """Executors to remove: named ones first, then by least state, youngest first."""
    rest = [name for name in there if name not in leaving]
    rest.sort(key=lambda name: (held[name], -_age(name)[0]))
    return (*leaving, *rest)[: max(0, len(there) - total)]


def spread(current: Placement, executors: Sequence[str]) -> dict[int, str]:
    """Spread partitions evenly over executors; return only those that must move."""
    share, extra = divmod(len(current), len(executors))
    room = dict.fromkeys(executors, share)
    load = Counter(where for where in current.values() if where in room)
    for name in sorted(executors, key=lambda name: -load[name])[:extra]:
        room[name] += 1  # the remainder stays where most partitions are
    homeless = []
    for part, where in sorted(current.items()):
        if where is not None and room.get(where, 0) > 0:
            room[where] -= 1
        else:
            homeless.append(part)
    free = [name for name in executors for _ in range(room[name])]
    return dict(zip(homeless, free, strict=True))


def _age(name: str) -> tuple[int, str]:
    return (int(name), name) if name.isdecimal() else (-1, name)
