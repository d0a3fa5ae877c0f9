"""What each policy makes of a flow that starts with one instance of everything.

Three operators that wait run on more slots than there are cores, so that instances are worth
something on any machine. All plans within a budget are tried first, and the best of them is what
policies are compared with: under a load that just about needs it, and then under a small one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.result import Claim, Result
from bench.running import until
from penstock import Dataflow, Parquet
from penstock.app import run as run_flow
from penstock.dataflow.connectors import Generator
from penstock.engines.spark.engine import SparkEngine
from penstock.plan.limits import Limits
from penstock.plan.plan import Pipeline, Plan
from penstock.store import history
from penstock.store.history import RecordedSnapshot
from penstock_lab.workloads import costs

MASTER = "local[16]"
WAITS = {"a": 0.006, "b": 0.015, "c": 0.009}
BUDGET = 8
HIGH, LOW = 75, 75
LONG = {"stepwise": 250, "organic": 150, "round-robin": 200, "least-link-load": 200}
"""Who tries plans one after the other, each for a while, or goes round, needs longer."""
LAST = 20
LITTLE = 0.15

BLIND = ("static",)
"""Who does not look at all, for comparison; `static` gives nothing back either."""

UNAIMED = ("round-robin", "least-link-load")
"""Who look whether instances are needed but not by whom: they need as many for each as for one."""

POLICIES = (
    "latency",
    "organic:profile=5s,settle=2s",
    "stela:automatic=true,congested=1.1",
    "es-stream:steady=5s,changing=5s",
    "stepwise:observations=4",
    "ds2",
    "drs:adjust=5s",
    "threshold",
    "round-robin",
    "least-link-load",
    "static",
)


def flow(out: Path, load: str) -> Dataflow:
    made = Dataflow("waits")
    stream = made.source("orders", Generator(costs.Orders(), costs.RECORD, load))
    steps = [
        costs.Step(name, costs.wait(seconds), carry=() if name == "c" else ("value",))
        for name, seconds in WAITS.items()
    ]
    for step in steps:
        stream = step.attach(stream)
    stream.sink("results", Parquet(str(out)))
    made.constrain("a", "c", latency="4s", window="5s")

    def expected(inputs: Any) -> Any:
        table = inputs["orders"]
        for step in steps:
            table = step.foresee(table)
        return costs.rows(table)

    made.expect("results", expected)
    return made


def plan_of(a: int, b: int, c: int, batch: float | None = None) -> Plan:
    """So many instances for the three; batch: seconds of work that one takes at most."""

    def pipeline(instances: int, *operators: str) -> Pipeline:
        rows = None if batch is None else round(instances * batch / WAITS[operators[0]])
        return Pipeline(operators, instances, admission=rows)

    return Plan(
        (
            Pipeline(("orders",), 1),
            pipeline(a, "a"),
            pipeline(b, "b"),
            pipeline(c, "c", "results"),
        )
    )


def plans() -> Iterator[tuple[int, int, int]]:
    """All plans that use the whole budget; fewer instances never do more."""
    for a, b in itertools.product(range(1, BUDGET), repeat=2):
        if a + b < BUDGET:
            yield a, b, BUDGET - a - b


def best_plan(spark: Any, folder: Path) -> tuple[tuple[int, int, int], float]:
    """Try all plans on one running flow that always has enough to do."""
    engine = SparkEngine(spark=spark, window=5.0)
    graph = flow(folder / "out", "1500/s").graph
    engine.start(graph, plan_of(1, 1, 1, 1.0), folder / "run")
    found = {}
    try:
        for plan in plans():
            engine.apply(plan_of(*plan, 1.0))
            until(lambda: engine.observe().settled)
            seen = engine.observe().pipelines
            found[plan] = min(metrics.rate_in or 0.0 for metrics in seen.values())
            print(f"  {plan}: {found[plan]:.0f}/s", flush=True)
    finally:
        engine.stop(drain=False)
    best = max(found, key=lambda plan: found[plan])
    return best, found[best]


def delivered(seen: list[RecordedSnapshot], end: float) -> float:
    """Rows a second into the sink before a time, over whole batches, and if it can be of one plan.

    A batch comes at once, so what counts is from the first that came to the last.
    """
    before = [s for s in seen if s.snapshot.at <= end]
    since = end
    for one in reversed(before):
        if one.plan != before[-1].plan:
            break
        since = one.snapshot.at
    start = max(end - LAST, min(since + 5, end - LAST / 2))
    came = [
        (b.snapshot.at, b.snapshot.rows_delivered)
        for a, b in itertools.pairwise(before)
        if b.snapshot.at > start and b.snapshot.rows_delivered > a.snapshot.rows_delivered
    ]
    if len(came) < 2:
        return 0.0
    (begin, first), (last, rows) = came[0], came[-1]
    return (rows - first) / (last - begin)


def _instances(seen: list[RecordedSnapshot], at: float) -> int:
    """Instances of the plan in force at a time."""
    return [s.plan.slots for s in seen if s.snapshot.at <= at][-1]


def _policy(
    spark: Any, policy: str, rate: float, plan: Plan, folder: Path, slots: int = BUDGET + 1
) -> dict[str, Any]:
    high = LONG.get(policy.partition(":")[0], HIGH)
    summary = run_flow(
        flow(folder / "out", f"steps:{rate:.0f},{LITTLE * rate:.0f}@{high}s"),
        policy=policy,
        plan=plan,
        engine=SparkEngine(spark=spark),
        seconds=high + LOW,
        limits=Limits(slots=slots),
        run_dir=folder / "run",
    )
    seen = list(history.recorded_snapshots(folder / "run"))
    return {
        "policy": policy,
        "rows/s": round(min(delivered(seen, high), rate), 1),  # a backlog brings more for a while
        "instances then": _instances(seen, high),
        "and under the small load": _instances(seen, high + LOW),
        "changes": sum(1 for a, b in itertools.pairwise(seen) if a.plan != b.plan),
        "slot seconds": round(seen[-1].snapshot.slot_seconds or 0),
        "exact": summary.exact,
    }


def run(spark: Any, folder: Path) -> Result:
    best, rate = best_plan(spark, folder / "search")
    rows = [_policy(spark, "static", rate, plan_of(*best), folder / "best")]
    rows[0]["policy"] = f"best plan {best}, kept"
    top = rows[0]["rows/s"]
    claims = []
    for policy in POLICIES:
        slots = max(best) * (len(WAITS) + 1) if policy in UNAIMED else BUDGET + 1
        home = folder / policy.partition(":")[0]
        row = _policy(spark, policy, rate, plan_of(1, 1, 1), home, slots)
        rows.append(row)
        print(f"  {row}", flush=True)
        claims.append(Claim(f"{policy} is exact", float(row["exact"]), least=1))
        if policy not in BLIND:
            claims.append(Claim(f"{policy} / best plan", row["rows/s"] / top, least=0.9))
            claims.append(
                Claim(
                    f"{policy}, instances at the end of the small load / before",
                    row["and under the small load"] / row["instances then"],
                    most=0.8,
                )
            )
    longer = ", ".join(f"{name}: {seconds} s" for name, seconds in LONG.items())
    about = (
        f"Policies on three operators that wait {', '.join(f'{s:g} s' for s in WAITS.values())}, "
        f"from one instance each, at most {BUDGET} for the three of them. The best of all "
        f"{len(list(plans()))} plans does {rate:.0f} rows/s; that is the load for {HIGH} s "
        f"({longer}), then {LITTLE:g} of it. rows/s: "
        f"at the sink in the last {LAST} s of the large load, over whole batches, and no more than "
        "the load; instances under the small load are those at its end. round-robin and "
        "least-link-load do not look who needs instances: they may give each operator, the source "
        f"too, the {max(best)} that one of them needs."
    )
    return Result("policies", about, rows, claims)
