"""The applications of stepwise profiling on its platform, to be simulated.

The paper ran Storm on virtual machines with two processors each, one worker a machine. What it
does not print follows from these:

- To fetch a tweet of some 3 kB from the queue server, or to write it away, takes a round trip of
  0.2 ms and 0.05 ms of a processor. Who only keeps it for a while takes these 0.05 ms too.
- What is bound by I/O parses a tweet as the word count does and waits more than it works: 1 ms,
  0.3 ms of it on a processor.
- 10,000 random numbers take 1 ms, as in the workloads here. All threads of a worker draw them from
  one seed, which only one of them can move on at a time: two beside each other draw as many as
  one alone. Among other work it is as likely that both draw as the square of their share of it.
- Of the word count the paper prints that tasks of parser, splitter and counter relate as 2:2:3,
  that a tweet has 12 words, and that four machines carry 6,000 tweets a second. Parser and splitter
  take 0.3 ms and the counter 0.04 ms for a word, round times with which this relation holds and
  the eight processors are 85 % busy at 6,000. Words follow Zipf's law.
- The sentiment analysis parses and splits as the word count does; what its libraries take on top
  are the estimates of the workload here, 0.1 ms for the language and 0.15 ms for the mood.
- Each round begins with Storm's rebalance, which starts all instances from scratch, dealt to the
  machines in turn. What ran before has no say in where it runs.
- Queues hold 1,024 records for an instance, which is Storm's default.
- Every instance takes 1 % of a processor, at work or not, since Storm keeps two threads for it that
  are woken and switched. The paper says that too many instances cost throughput and not how much:
  the figure is a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow, Stream
from penstock.dataflow.graph import Graph
from penstock.engines.simulator.distributions import Gamma
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Keys, Machine, Model, OperatorCost, Timing
from penstock.errors import InvalidInput

_VARIES = 0.3  # coefficient of variation of what takes time
_RECORD = "key string"
_WORDS = Keys(100_000, skew=1.0)

UPKEEP = 0.01

CPU = OperatorCost(Gamma(1e-3, _VARIES))
IO = OperatorCost(Gamma(1e-3, _VARIES), cpu=0.3)
WAIT = OperatorCost(Gamma(5.05e-3, _VARIES), cpu=0.05 / 5.05)
FETCH = OperatorCost(Gamma(0.25e-3, _VARIES), cpu=0.2)


@dataclass(frozen=True)
class App:
    """An application on the paper's platform.

    load: more than it carries, from each source; interference: between busy threads of a machine.
    """

    graph: Graph
    steps: Mapping[str, OperatorCost]
    load: str
    interference: float = 0.0

    def engine(
        self, nodes: int, seed: int, window: float, finest: float = 0.1, upkeep: float = UPKEEP
    ) -> SimulatorEngine:
        model = Model(
            self.steps,
            nodes=nodes,
            node=Machine(cores=2, interference=self.interference, upkeep=upkeep),
            delay=0.0002,
            queue=1024,
            timing=Timing(executor_start=0.0, instance_start=0.0, restart=0.0, state_rate=1e12),
            anew=True,
        )
        return SimulatorEngine(model, seed=seed, step=0.5, finest=finest, window=window)

    def rows(self) -> dict[str, float]:
        """Input records of each operator per record of all sources together."""
        found: dict[str, float] = {}
        for name in self.graph.topological:
            inputs = self.graph[name].inputs
            made = (found[i] * self.steps[i].selectivity for i in inputs if i in self.steps)
            found[name] = sum(made) if inputs else 1 / len(self.graph.sources)
        return found

    def within(self, latency: float) -> App:
        """The application with another latency bound."""
        bounds = tuple(replace(c, latency=latency) for c in self.graph.constraints)
        return replace(self, graph=replace(self.graph, constraints=bounds))


# --- the six applications -----------------------------------------------------------------------


def linear(kinds: str = "ccc", load: str = "6000/s") -> App:
    """A chain of operators: `c` is CPU-bound, `i` I/O-bound, `w` waits 5 ms."""
    flow = Dataflow("linear")
    stream, steps = _source(flow, "source", load), {"source": FETCH}
    for number, kind in enumerate(kinds, start=1):
        stream = stream.map(f"op-{number}", _never, schema=_RECORD)
        steps[f"op-{number}"] = {"c": CPU, "i": IO, "w": WAIT}[kind]
    stream.sink("sink", Discard())
    flow.constrain("op-1", f"op-{len(kinds)}", latency="500ms", window=1.0)
    return App(flow.graph, steps, load, _both_draw(steps))


def mixed(depth: int, turns: bool = False) -> str:
    """The name of a chain of operators of all kinds, so many with the source, of each as many.

    The paper mixes them and does not say which comes where. Here those of a kind are neighbours, so
    that each machine gets its part of every kind when instances are dealt in turn, as the paper
    says of its scheduler. turns: kinds take turns instead; in the ratio of 1:1:4 they go round six
    machines at once, and all that are bound by the processor meet on the same ones.
    """
    kinds = ("ciw" * depth)[: depth - 1]
    return f"linear:{kinds if turns else ''.join(sorted(kinds))}"


def diamond(load: str = "6000/s") -> App:
    """Every record goes to four parallel operators: one each of the kinds, plus one that waits."""
    flow = Dataflow("diamond")
    source = _source(flow, "source", load)
    kinds = {"cpu": CPU, "io": IO, "wait-1": WAIT, "wait-2": WAIT}
    first, *others = [source.map(name, _never, schema=_RECORD) for name in kinds]
    first.union("merge", *others).sink("sink", Discard())
    for name in kinds:
        flow.constrain(name, "merge", latency="500ms", window=1.0)
    steps = {"source": FETCH, **kinds, "merge": FETCH}
    return App(flow.graph, steps, load, _both_draw(steps))


def star(load: str = "20000/s") -> App:
    """Two sources feed one operator, from which two others get half of the records each."""
    flow = Dataflow("star")
    north, south = _source(flow, "north", load), _source(flow, "south", load)
    centre = north.union("centre", south)
    for name in ("east", "west"):
        centre.map(name, _never, schema=_RECORD).sink(f"sink-{name}", Discard())
        flow.constrain("centre", name, latency="100ms", window=1.0)
    steps = {
        "north": FETCH,
        "south": FETCH,
        "centre": replace(IO, selectivity=0.5),
        "east": IO,
        "west": IO,
    }
    return App(flow.graph, steps, load)


def word_count(wait: bool = False, load: str = "30000/s") -> App:
    """Word count: tweets are parsed, split and counted; wait: with a pause of 1 ms before."""
    flow = Dataflow("synthetic-wordcount" if wait else "wordcount")
    stream = _source(flow, "tweets", load)
    if wait:
        stream = stream.map("wait", _never, schema=_RECORD)
    parsed = stream.map("parse", _never, schema=_RECORD)
    words = parsed.flat_map("split", _never, schema=_RECORD, selectivity="workload-dependent")
    _counted(words, "count").sink("counts", Discard())
    flow.constrain("wait" if wait else "parse", "count", latency="500ms", window=1.0)
    steps = {
        "tweets": FETCH,
        "wait": OperatorCost(Gamma(1.05e-3, _VARIES), cpu=0.05 / 1.05),
        "parse": OperatorCost(Gamma(0.3e-3, _VARIES)),
        "split": OperatorCost(Gamma(0.3e-3, _VARIES), 12.0),
        "count": OperatorCost(Gamma(0.04e-3, _VARIES), 0.1, _WORDS),
    }
    known = {o.name for o in flow.graph.operators}
    return App(flow.graph, {n: s for n, s in steps.items() if n in known}, load)


def sentiment(load: str = "30000/s") -> App:
    """Sentiment analysis: tweets are stored, moods averaged, hashtags ranked."""
    flow = Dataflow("sentiment-analysis")
    tweets = _source(flow, "tweets", load)
    tweets.map("store", _never, schema=_RECORD).sink("stored", Discard())
    english = tweets.map("language", _never, schema=_RECORD, selectivity="workload-dependent")
    scored = english.map("mood", _never, schema=_RECORD)
    average = _counted(scored, "average")
    average.map("report", _never, schema=_RECORD).sink("averages", Discard())
    tags = scored.flat_map("hashtags", _never, schema=_RECORD, selectivity="workload-dependent")
    ranked = _counted(_counted(tags, "tag-count"), "rank-part")
    ranked = ranked.process_all("rank-all", _never, schema=_RECORD, selectivity="logic-dependent")
    ranked.map("publish", _never, schema=_RECORD).sink("ranking", Discard())
    flow.constrain("language", "average", latency="500ms", window=1.0)
    flow.constrain("language", "tag-count", latency="500ms", window=1.0)
    cheap = OperatorCost(Gamma(0.04e-3, _VARIES), 0.01, _WORDS)
    told = replace(cheap, selectivity=1.0)
    steps = {
        "tweets": FETCH,
        "store": FETCH,
        "language": OperatorCost(Gamma(0.4e-3, _VARIES), 0.6),
        "mood": OperatorCost(Gamma(0.45e-3, _VARIES)),
        "average": cheap,
        "report": told,
        "hashtags": OperatorCost(Gamma(0.1e-3, _VARIES), 0.6),
        "tag-count": cheap,
        "rank-part": told,
        "rank-all": told,
        "publish": told,
    }
    return App(flow.graph, steps, load)


def _both_draw(steps: Mapping[str, OperatorCost]) -> float:
    """Probability that two threads on processors both draw random numbers."""
    work = {name: step.service.mean * step.cpu for name, step in steps.items()}
    return (sum(work[n] for n, step in steps.items() if step is CPU) / sum(work.values())) ** 2


def _source(flow: Dataflow, name: str, load: str) -> Stream:
    return flow.source(name, Generator(_never, _RECORD, load))


def _counted(stream: Stream, name: str) -> Stream:
    return stream.key_by("key").process(
        name, _never, schema=_RECORD, selectivity="logic-dependent", takes_updates=True
    )


def _never(*_: Any) -> Any:
    """A simulated operator calls nothing."""
    raise AssertionError("a simulated operator is not called")


_APPS: Mapping[str, Callable[[], App]] = {
    "linear": linear,
    "diamond": diamond,
    "star": star,
    "WC": word_count,
    "SWC": lambda: word_count(wait=True),
    "TSA": sentiment,
}


def app(name: str) -> App:
    """An application by name; `linear:ciw` is a chain of operators of these kinds."""
    if name.startswith("linear:"):
        return linear(name.partition(":")[2])
    if name not in _APPS:
        raise InvalidInput(f"no application '{name}': there are {', '.join(_APPS)}")
    return _APPS[name]()
