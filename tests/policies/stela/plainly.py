"""Giving out slots as it is described: every value anew for every slot, whatever that takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from penstock.metrics import derived
from penstock.policies.shared import rates as model
from penstock.policies.shared import scaling
from penstock.policies.shared.rates import Rates
from penstock.policies.shared.topology import Topology
from penstock.policies.stela.etp import congested, etp
from penstock.policies.stela.strategies import RANKINGS, Ranking


@dataclass(frozen=True)
class Growing:
    topology: Topology
    rates: Rates
    over: float
    given: Mapping[str, int] = field(default_factory=dict)

    @property
    def congested(self) -> frozenset[str]:
        return congested(self.rates, self.over)

    def instances(self, name: str) -> int:
        return self.topology.pipelines[name].parallelism + self.given.get(name, 0)

    def room(self, name: str) -> bool:
        most = scaling.bounds_within_ceiling(self.topology, name).most
        return most is None or self.instances(name) < most

    def give(self, name: str) -> Growing:
        factor = (self.instances(name) + 1) / self.instances(name)
        grows = name in self.topology.sources and not self.congested
        change = model.grown if grows else model.scaled
        rates = change(self.topology, self.rates, name, factor)
        return replace(self, rates=rates, given={**self.given, name: self.given.get(name, 0) + 1})


Choice = Callable[[Growing], str | None]


def by_etp(growing: Growing) -> str | None:
    return next((name for name in _ranked(growing) if growing.room(name)), None)


def by_gain(growing: Growing) -> str | None:
    able = [name for name in _ranked(growing) if growing.room(name)][:32]

    def throughput(name: str) -> float:
        return float(f"{model.throughput(growing.topology, growing.give(name).rates):.9g}")

    return max(able, key=throughput, default=None)


def by(ranking: Ranking) -> Choice:
    def choose(growing: Growing) -> str | None:
        ranked = ranking(growing.topology, growing.rates)
        turns = sorted(ranked, key=lambda name: growing.given.get(name, 0))
        return next((name for name in turns if growing.room(name)), None)

    return choose


CHOICES: Mapping[str, Choice] = {
    "etp": by_etp,
    "gain": by_gain,
    **{name: by(ranking) for name, ranking in RANKINGS.items()},
}


def give_out(growing: Growing, slots: int, choose: Choice) -> tuple[Growing, list[str]]:
    """How it ends, and who got one after the other."""
    order = []
    for _ in range(slots):
        name = choose(growing)
        if name is None:
            break
        order.append(name)
        growing = growing.give(name)
    return growing, order


def _ranked(growing: Growing) -> list[str]:
    found = [name for name in growing.topology.pipelines if name in growing.congested]
    candidates = found or growing.topology.sources
    shares = etp(growing.topology, growing.rates, growing.over)

    def worth(name: str) -> tuple[float, float]:
        share = derived.rounded(shares[name])
        if found:
            return share, derived.rounded(growing.rates[name].congestion)
        return share, -growing.instances(name)

    return sorted(candidates, key=worth, reverse=True)
