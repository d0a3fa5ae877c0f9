"""Whole experiments to be simulated: a dataflow, a plan to start with, a cluster, a load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.simulator.distributions import Gamma
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Dispatch, Machine, Model, OperatorCost, Timing
from penstock.plan.plan import Pipeline, Plan


@dataclass(frozen=True)
class Scenario:
    """All that a simulated experiment needs but a policy and a seed."""

    graph: Graph
    plan: Plan
    model: Model
    load: str
    seconds: float

    def engine(self, seed: int = 0, **options: Any) -> SimulatorEngine:
        """A new engine for it; options are those of `SimulatorEngine`."""
        return SimulatorEngine(self.model, load=self.load, seed=seed, **options)


PRIME_RATES = (10_000, 20_000, 30_000, 40_000, 50_000, 60_000)
PRIME_SERVICE = 0.0027


def prime_tester(
    tasks: int = 175,
    *,
    latency: str = "20ms",
    batching: float = 0.0,
    step: float = 60.0,
    rates: Sequence[int] = PRIME_RATES,
    service: float = PRIME_SERVICE,
    ends: int = 32,
    elastic: bool = True,
    nodes: int = 130,
) -> Scenario:
    """Nephele's PrimeTester: 32 sources, prime testers between 1 and 520, 32 sinks.

    The load warms up at 10,000 numbers a second, rises by as much in each step of a minute to
    60,000, stays there for one, and falls back: 12 steps. The seed prints neither the peak nor
    the time of a test. They follow from what it prints: with 2.7 ms a number, 36 testers suffice
    for 20 ms at the start as it says, and 175 are just enough for 60,000 a second; and the 175
    testers, 32 sources and 32 sinks of 12 minutes are 47.8 task hours, a little more than the
    46.4 it gives for a bound of 30 ms. batching: seconds that testers gather their input; ends:
    sources, and as many sinks; elastic: whether the testers may be changed.
    """
    flow = Dataflow("prime-tester")
    fixed = {"min_parallelism": ends, "max_parallelism": ends}
    testers = (1, 520) if elastic else (tasks, tasks)
    numbers = flow.source("source", Generator(never, "n bigint"), **fixed)
    tested = numbers.map(
        "test",
        never,
        schema="n bigint",
        min_parallelism=testers[0],
        max_parallelism=testers[1],
    )
    tested.sink("sink", Discard(), **fixed)
    flow.constrain("test", "sink", latency=latency, window=5.0)
    steps = (*rates, rates[-1], *reversed(rates[:-1]))
    plan = Plan(
        (
            Pipeline(("source",), ends),
            Pipeline(("test",), tasks, cadence=batching),
            Pipeline(("sink",), ends),
        ),
        nodes,
    )
    model = Model(
        {"test": OperatorCost(Gamma(service, 0.3))},
        nodes=nodes,
        node=Machine(cores=4),
        dispatch=Dispatch.CHANCE,
        delay=0.0005,
        queue=500,
        timing=Timing(executor_start=0.0, instance_start=1.5),
    )
    load = f"steps:{','.join(map(str, steps))}@{step:g}s"
    return Scenario(flow.graph, plan, model, load, len(steps) * step)


TWEETS = (2_000, 5_500)
TWEETS_PEAK = (2_400.0, 6_734.0)


def twitter_sentiment(
    *,
    days: float = 14.0,
    speed: float = 1.0,
    tasks: Mapping[str, int] | None = None,
    since: float = 0.0,
    peak: bool = True,
) -> Scenario:
    """Nephele's TwitterSentiment: hot topics and sentiment, two constraints, 1 to 100 tasks each.

    Two weeks of tweets in 100 minutes, with the peak of 6,734 a second at 2,400 s. What the seed
    does not print: 69 GB of tweets of some 3 kB are 23 million, 3,800 a second on average, so days
    and nights go from 2,000 to 5,500 here, and the rate varies by 5 % every 5 s. Reading a tweet
    and its topics or matching it takes 1 ms, as parsing 3 kB of JSON does; finding a sentiment
    takes 5 ms, and a fifth of the tweets is about a popular topic. Every 200 ms each of the hot
    topic tasks, 55.7 % busy as in the seed, sends a list: 0.009 lists for a tweet. That lists go
    to all filters is left out, they are few. That the peak was about few topics is left out too:
    here it is a peak of all tweets. speed: how many times as fast as the seed; days: so many of
    the two weeks, and since: with which of them it begins, 0 for the first; peak: whether there is
    one.
    """
    flow = Dataflow("twitter-sentiment")
    one = {"min_parallelism": 1, "max_parallelism": 1}
    many = {"min_parallelism": 1, "max_parallelism": 100}
    tweets = flow.source("tweets", Generator(never, "text string"), **one)
    lists = tweets.map("hot-topics", never, schema="text string", latency="read-write", **many)
    merged = lists.map("merge", never, schema="text string", **one)
    filtered = tweets.union("filter", merged, **many)
    scored = filtered.map("sentiment", never, schema="text string", **many)
    scored.sink("sink", Discard(), **one)
    flow.constrain("hot-topics", "filter", latency="215ms", window=5.0)
    flow.constrain("filter", "sink", latency="30ms", window=5.0)
    wanted = {"hot-topics": 10, "filter": 10, "sentiment": 10, **(tasks or {})}
    names = (o.name for o in flow.graph.operators)
    plan = Plan(tuple(Pipeline((n,), wanted.get(n, 1)) for n in names), 130)
    model = Model(
        {
            "hot-topics": OperatorCost(Gamma(0.001, 0.5), 0.009, window=0.2),
            "merge": OperatorCost(Gamma(0.0005, 0.5)),
            "filter": OperatorCost(Gamma(0.001, 0.5), 0.2),
            "sentiment": OperatorCost(Gamma(0.005, 0.5)),
        },
        nodes=130,
        node=Machine(cores=4),
        dispatch=Dispatch.CHANCE,
        delay=0.0005,
        queue=500,
        timing=Timing(executor_start=0.0, instance_start=1.5),
    )
    seconds = days / 14 * 6000 / speed
    return Scenario(flow.graph, plan, model, _tweets(seconds, speed, since, peak), seconds)


def _tweets(seconds: float, speed: float, since: float, peak: bool) -> str:
    """The rate every 5 s: days and nights, a little noise, and one peak that fades in a minute."""
    day = 6000 / 14 / speed
    begin = 5.0 * round(since * day / 5.0)
    at = np.arange(0.0, begin + seconds + 5.0, 5.0)
    low, high = TWEETS
    rate = low + (high - low) * (1 - np.cos(2 * np.pi * at / day)) / 2
    rate *= 1 + 0.05 * np.random.default_rng(14).standard_normal(len(at))
    when, most = TWEETS_PEAK[0] / speed, TWEETS_PEAK[1]
    past = at - when
    burst = np.where((past >= 0) & peak, most * np.exp(-past / 60), 0.0)
    rate = np.minimum(np.maximum(rate, burst), most)
    points = zip(at, rate, strict=True)
    return "points:" + ",".join(f"{t - begin:g}={r:.0f}" for t, r in points if t >= begin)


def never(*_: Any) -> Any:
    """A simulated operator calls nothing."""
    raise AssertionError("a simulated operator is not called")
