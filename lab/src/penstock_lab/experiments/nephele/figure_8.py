"""Nephele's figure 8: TwitterSentiment, two constraints at once.

The peak of 6,734 tweets a second comes on the sixth day; a shorter run is of the days around it, of
which it is seven times as large a part as of two weeks. It was about very few topics, so that more
than a fifth of its tweets pass the filter. How many is not printed, so that it is looked at alone,
by the tasks that find sentiments: all those pass that come on top of the usual rate, which is the
least that this can mean, and of the others a fifth. Told as well: what comes of it if a fifth
passes as ever, and if, where 800 of 4,000 tweets a second have passed, all 6,734 do.

The best static plan is the smallest that keeps both bounds while 5,500 tweets a second come, the
high of a day, which nobody knows beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from penstock.drawing.figures import Figure, Level, Line, Panel
from penstock.engines.simulator.model import OperatorCost
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import (
    Case,
    Claim,
    Data,
    Experiment,
    Read,
    Record,
    simulated,
)
from penstock_lab.experiments.nephele import twitter_spark
from penstock_lab.experiments.nephele.common import (
    P95,
    PAPER,
    PRINTED,
    FewestInstances,
    dynamic,
    note,
    short,
)
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.rivals import scaled
from penstock_lab.experiments.scenario import TWEETS_PEAK, Scenario, twitter_sentiment

TOPICS, MOOD = "hot-topics->filter", "filter->sink"
ELASTIC = ("hot-topics", "filter", "sentiment")


def cases(days: float, since: float) -> Sequence[Case]:
    scenario = twitter_sentiment(days=days, since=since)
    return (
        Case("latency", Play(scenario, PRINTED, every=5.0)),
        Case("static", Play(provisioned(scenario), every=5.0)),
        Case("best static", _fewest(scenario)),
        Case("dynamic allocation", dynamic(scenario, 25, dict.fromkeys(ELASTIC, 4), every=5.0)),
        Case(PEAK, Play(around_the_peak(), PRINTED)),
        Case(RISE, Play(rise_of_one_topic(), PRINTED)),
        Case(TOPIC, Play(one_topic(), PRINTED)),
    )


PEAK = "peak"
RISE = "rise of one topic"
TOPIC = "one topic"
JUMP = 100.0


def _fewest(scenario: Scenario) -> FewestInstances:
    trial = replace(scenario, load="5500/s", seconds=15.0)
    choices = dict.fromkeys(ELASTIC, range(4, 36))
    start = {p.name: p.parallelism for p in provisioned(scenario).plan.pipelines}
    return FewestInstances(trial, scenario, choices, {n: start[n] for n in ELASTIC}, every=5.0)


def around_the_peak() -> Scenario:
    """The load of the days before the peak and the peak itself, for shorter runs."""
    return _loaded(twitter_sentiment(), _near())


def rise_of_one_topic() -> Scenario:
    """Share that passes the filter: a fifth of the usual tweets, all above the usual rate."""
    usual = _near(peak=False)
    passed = {at: 0.2 * usual[at] + max(0.0, rate - usual[at]) for at, rate in _near().items()}
    return _loaded(_sentiments_alone(), passed)


def one_topic() -> Scenario:
    """Share that passes the filter: a fifth before the peak, all tweets at the peak."""
    before, most = 0.2 * 4000, TWEETS_PEAK[1]
    passed = {0.0: before, JUMP: before, JUMP + 0.001: most, JUMP + 60: most}
    return _loaded(_sentiments_alone(), passed)


def _near(peak: bool = True) -> dict[float, float]:
    """Tweets per second from shortly before the peak until a minute after it."""
    begin, end = TWEETS_PEAK[0] - JUMP, TWEETS_PEAK[0] + 60
    points = twitter_sentiment(peak=peak).load.removeprefix("points:").split(",")
    found = (map(float, point.split("=")) for point in points)
    return {at - begin: rate for at, rate in found if begin <= at <= end}


def _sentiments_alone() -> Scenario:
    """A scenario in which all tweets have passed the filter; topics and filters take no time."""
    whole = twitter_sentiment(tasks={"sentiment": 8})
    free = {"hot-topics": OperatorCost(selectivity=0.009, window=0.2), "filter": OperatorCost()}
    return replace(whole, model=replace(whole.model, costs={**whole.model.costs, **free}))


def _loaded(scenario: Scenario, rates: Mapping[float, float]) -> Scenario:
    points = (f"{at:g}={rate:.0f}" for at, rate in rates.items())
    return replace(scenario, load=f"points:{','.join(points)}", seconds=JUMP + 60)


def provisioned(scenario: Scenario) -> Scenario:
    """A static plan for the known peak of 6,734 tweets/s: the fewest tasks that are 70 % busy then.

    Somebody who knows load and costs would provision it; the paper does not have it.
    """
    share = {"hot-topics": 1.0, "filter": 1.0, "sentiment": 0.2}
    steps = scenario.model.costs
    wanted = {n: -int(-6734 * share[n] * steps[n].service.mean // 0.7) for n in ELASTIC}
    return replace(scenario, plan=scaled(scenario.plan, wanted))


def _busy(data: Data) -> float:
    """Mean utilisation over time of a task of the three elastic vertices."""
    found = []
    for tick in data.of("latency"):
        seen = [tick["pipelines"][n] for n in ELASTIC]
        if all(s["busy"] is not None for s in seen):
            tasks = sum(s["instances"] for s in seen)
            found.append(sum(s["instances"] * s["busy"] for s in seen) / tasks)
    return fmean(found)


def _added(case: str) -> Read:
    """Sentiment tasks added within 40 s of the peak."""

    def read(data: Data) -> float:
        near = reading.between(data.of(case), JUMP - 5, JUMP + 40)
        found = [t["pipelines"]["sentiment"]["instances"] for t in near]
        return float(max(found) - found[0])

    return read


def _usual_p95(constraint: str, data: Data) -> float:
    ticks = [t["latency"].get(constraint) for t in data.of("latency")]
    found = sorted(1000 * float(one["p95"]) for one in ticks if one is not None)
    return found[len(found) // 2]


def _tasks(data: Data, name: str) -> Line:
    def read(tick: Record) -> float:
        return float(tick["pipelines"][name]["instances"])

    return reading.line(data, "latency", read, name, style="step")


def _all_tasks(tick: Record) -> float:
    return float(sum(tick["pipelines"][name]["instances"] for name in ELASTIC))


TONES = {"latency": 0, "static": 1, "best static": 5, "dynamic allocation": 2}


def picture(data: Data) -> Figure:
    if data.engine == "spark":
        return twitter_spark.picture(data)
    cases = [c for c in TONES if c in data.cases]
    times, offered = reading.rates(data, "latency", 5.0, "offered")
    panels = [Panel("time (s)", "tweets/s", (Line("tweets", times, offered, tone=6),))]
    for name, bound in ((TOPICS, 215.0), (MOOD, 30.0)):

        def mean(tick: Record, name: str = name) -> float:
            return 1000 * float(tick["latency"][name]["mean"])

        def p95(tick: Record, name: str = name) -> float:
            return 1000 * float(tick["latency"][name]["p95"])

        lines = (
            *(reading.line(data, c, mean, short(c), tone=TONES[c]) for c in cases),
            reading.line(data, "latency", p95, P95, tone=0, faint=True),
        )
        levels = (Level(bound, f"{bound:g} ms"),)
        title = name.replace("->", " to ")
        panels.append(
            Panel("time (s)", "mean latency (ms)", lines, levels=levels, title=title, log=True)
        )
    tasks = tuple(_tasks(data, name) for name in ELASTIC)
    marks = reading.marks(data, "latency")
    panels.append(Panel("time (s)", "tasks", tasks, marks=marks, title="the policy latency",
                        marked="its changes"))  # fmt: skip
    totals = (
        reading.line(data, c, _all_tasks, short(c), style="step", tone=TONES[c]) for c in cases
    )
    panels.append(Panel("time (s)", "tasks", tuple(totals), title="all elastic tasks"))
    return Figure("TwitterSentiment under two constraints", tuple(panels),
                  note=note(data, "figure 8"))  # fmt: skip


_TOPICS = (
    "the paper does not print how many tweets of the peak passed the filter. If all tweets "
    "above the usual rate pass, as here, fewer tasks are needed than if all tweets pass (row "
    "below); the paper's number is between the two"
)

_CALMER = (
    "simulated tweets follow days and nights with 5 % of noise every 5 s and one peak, and the "
    "cluster has no stragglers. The paper's bursts are real, and most of its misses are in them"
)

_WINDOWS = (
    "a tweet waits up to 200 ms for the end of its window, and its list for the batching that a "
    "bound on the mean allows, so some tweets take longer than the bound"
)

FIGURE_8 = Experiment(
    "nephele-8",
    "TwitterSentiment: two constraints at once",
    PAPER,
    "figure 8",
    cases,
    (
        *simulated(
            Claim(
                "share of intervals that meet 215 ms",
                0.93,
                lambda data: reading.met(data, "latency", TOPICS),
                ideal=1.0,
                why=_CALMER,
            ),
            Claim(
                "share of intervals that meet 30 ms",
                0.96,
                lambda data: reading.met(data, "latency", MOOD),
                ideal=1.0,
                why=_CALMER,
            ),
            Claim("mean utilisation of a task", 0.557, _busy),
            Claim(
                "95th percentile outside bursts, second constraint",
                25,
                lambda data: _usual_p95(MOOD, data),
                "ms",
            ),
            Claim(
                "95th percentile, first constraint",
                215,
                lambda data: _usual_p95(TOPICS, data),
                "ms",
                why=_WINDOWS,
            ),
            Claim(
                "sentiment tasks added at the peak",
                28,
                _added(RISE),
                why=_TOPICS,
            ),
            Claim(
                "sentiment tasks added where a fifth of the peak passes as ever",
                None,
                _added(PEAK),
            ),
            Claim(
                "sentiment tasks added where all tweets of the peak pass",
                None,
                _added(TOPIC),
            ),
            Claim(
                "task hours of the policy", None, lambda data: reading.task_hours(data, "latency")
            ),
            Claim(
                "task hours of a static plan for the peak",
                None,
                lambda data: reading.task_hours(data, "static"),
            ),
            Claim(
                "task hours of the best static plan",
                None,
                lambda data: reading.task_hours(data, "best static"),
            ),
            Claim(
                "share that meets 30 ms, best static",
                None,
                lambda data: reading.met(data, "best static", MOOD),
            ),
            Claim(
                "share that meets 30 ms, static",
                None,
                lambda data: reading.met(data, "static", MOOD),
            ),
            Claim(
                "share that meets 30 ms, dynamic allocation",
                None,
                lambda data: reading.met(data, "dynamic allocation", MOOD),
            ),
            Claim(
                "task hours of dynamic allocation",
                None,
                lambda data: reading.task_hours(data, "dynamic allocation"),
            ),
        ),
        *twitter_spark.CLAIMS,
    ),
    picture,
    size={"days": 14.0, "since": 0.0},
    quick={"days": 2.0, "since": 5.0},
    spark=twitter_spark.cases,
    spark_size={"rate": 240, "bound": "3s", "seconds": 100.0, "tasks": (3, 4, 5)},
    notes=(
        "The simulation has the paper's graph: tweets go to hot topics, which are merged, and "
        "to filters, which pass popular ones to sentiments. The workload twitter-sentiment has "
        "the same graph, with operators before it that parse tweets and find hashtags. The "
        "strategy is the one printed in the paper, without the reserve that the policy keeps by "
        "default.",
        "In the one run on Spark a static plan that was found by trying meets both bounds more "
        "often than the policy and costs less.",
    ),
)

EXPERIMENTS = (FIGURE_8,)
