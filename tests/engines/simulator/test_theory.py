"""Waiting times against what queueing theory knows exactly."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from penstock.engines.simulator.arrivals import Arrivals, Poisson, Renewal
from penstock.engines.simulator.distributions import (
    Constant,
    Exponential,
    Gamma,
    Lognormal,
    Service,
)
from penstock.engines.simulator.model import Dispatch, OperatorCost

from .flows import apart, chain, started

pytestmark = pytest.mark.large

RATE = 40_000


def wait(
    service: Service,
    run_dir: Path,
    *,
    servers: int = 1,
    dispatch: Dispatch = Dispatch.TURN,
    arrivals: Arrivals | None = None,
    seconds: int = 100,
    seed: int = 1,
) -> float:
    """The mean wait at `op` at 40,000 records a second."""
    engine = started(
        chain("op"),
        apart(("op", servers)),
        {"op": OperatorCost(service)},
        f"{RATE}/s",
        run_dir,
        dispatch=dispatch,
        arrivals=arrivals or Poisson(),
        seed=seed,
    )
    engine.advance(seconds)
    found = engine.observe().pipelines["op"]
    assert found.wait is not None
    return found.wait


def pollaczek(mean: float, cv: float, rate: float) -> float:
    """M/G/1: the formula of Pollaczek and Khinchine."""
    rho = rate * mean
    return rho / (1 - rho) * mean * (1 + cv**2) / 2


def erlang(servers: int, mean: float) -> float:
    """M/M/k: Erlang's formula, by the recurrence of the loss formula."""
    offered, loss = RATE * mean, 1.0
    for k in range(1, servers + 1):
        loss = offered * loss / (k + offered * loss)
    waiting = loss / (1 - offered / servers * (1 - loss))
    return waiting * mean / (servers - offered)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.8])
def test_m_m_1(tmp_path: Path, load: float) -> None:
    mean = load / RATE
    assert wait(Exponential(mean), tmp_path) == pytest.approx(pollaczek(mean, 1, RATE), rel=0.02)


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_m_d_1(tmp_path: Path, load: float) -> None:
    mean = load / RATE
    assert wait(Constant(mean), tmp_path) == pytest.approx(pollaczek(mean, 0, RATE), rel=0.02)


@pytest.mark.parametrize("service", [Gamma(0.6 / RATE, 0.5), Lognormal(0.6 / RATE, 0.8)])
def test_m_g_1(tmp_path: Path, service: Gamma | Lognormal) -> None:
    exact = pollaczek(service.mean, service.cv, RATE)
    assert wait(service, tmp_path) == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize(("servers", "load"), [(2, 0.8), (5, 0.8), (20, 0.8)])
def test_m_m_k(tmp_path: Path, servers: int, load: float) -> None:
    mean = load * servers / RATE
    found = [  # records seldom wait, so one stream of them says little
        wait(
            Exponential(mean),
            tmp_path / str(seed),
            servers=servers,
            dispatch=Dispatch.SHARED,
            seconds=20,
            seed=seed,
        )
        for seed in range(5)
    ]
    assert math.fsum(found) / 5 == pytest.approx(erlang(servers, mean), rel=0.02)


def test_records_by_chance_make_every_instance_an_m_m_1(tmp_path: Path) -> None:
    mean = 0.7 * 20 / RATE
    found = wait(Exponential(mean), tmp_path, servers=20, dispatch=Dispatch.CHANCE, seconds=50)
    assert found == pytest.approx(pollaczek(mean, 1, RATE / 20), rel=0.02)


@pytest.mark.parametrize("phases", [4, 20])
def test_records_in_turn_make_every_instance_an_e_k_m_1(tmp_path: Path, phases: int) -> None:
    # Every k-th record of a Poisson stream: gaps are sums of k exponential ones. The wait of
    # GI/M/1 is s / (1 - s) * mean with s the root of s = E[exp(-(1 - s) gap / mean)].
    mean = 0.8 * phases / RATE
    root = 0.5
    for _ in range(200):
        root = (1 / (1 + (1 - root) / mean / RATE)) ** phases
    exact = root / (1 - root) * mean
    assert wait(Exponential(mean), tmp_path, servers=phases) == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("cv", [0.5, 1.5])
def test_gi_m_1_with_gamma_gaps(tmp_path: Path, cv: float) -> None:
    mean, shape = 0.7 / RATE, 1 / cv**2
    root = 0.5
    for _ in range(500):
        root = (1 + (1 - root) / mean / (RATE * shape)) ** -shape
    exact = root / (1 - root) * mean
    found = wait(Exponential(mean), tmp_path, arrivals=Renewal(cv))
    assert found == pytest.approx(exact, rel=0.02)


def over(first: float, one: float, second: float, other: float) -> float:
    """How likely a gamma variable is above another; shapes and scales."""
    return float(special.betainc(second, first, one / (one + other)))


def spitzer(mean: float, arrival_cv: float, service_cv: float) -> float:
    """The wait of GI/G/1 with gamma gaps and gamma times, by Spitzer's identity.

    It is the sum over n of E[max(0, n times - n gaps)] / n, and sums of gamma variables are gamma
    variables: E[X; X > Y] is E[X] times how likely X with a shape that is one larger is above Y.
    """
    times, gaps = 1 / service_cv**2, 1 / arrival_cv**2
    scale, other = mean / times, 1 / RATE / gaps
    total = 0.0
    for n in range(1, 5000):
        above = n * mean * over(n * times + 1, scale, n * gaps, other)
        more = (above - n / RATE * over(n * times, scale, n * gaps + 1, other)) / n
        total += more
        if more < 1e-9 * total:
            break
    return total


def erlangs(mean: float, phases: int, stages: int) -> float:
    """The wait of E_k/E_l/1 from the roots of its spectrum: -1/s over those on the left."""
    k, m = phases * RATE * mean, stages  # in units of the mean time
    one = np.poly1d([-1.0, k]) ** phases * np.poly1d([1.0, m]) ** stages
    roots = (one - k**phases * float(m) ** stages).roots
    left = roots[roots.real < -1e-9]
    assert len(left) == stages
    return mean * float((-1 / left).sum().real - 1)


def test_two_ways_to_the_wait_of_gi_g_1_agree() -> None:
    for load, phases, stages in ((0.7, 2, 2), (0.8, 4, 2), (0.9, 4, 4), (0.8, 1, 1)):
        exact = erlangs(load / RATE, phases, stages)
        assert spitzer(load / RATE, phases**-0.5, stages**-0.5) == pytest.approx(exact, rel=1e-6)
    assert spitzer(0.8 / RATE, 1.0, 1.0) == pytest.approx(pollaczek(0.8 / RATE, 1, RATE), rel=1e-6)


@pytest.mark.parametrize(
    ("load", "arrival_cv", "service_cv"),
    [(0.8, 2**-0.5, 2**-0.5), (0.8, 0.5, 0.5), (0.6, 1.5, 0.5), (0.7, 0.5, 1.5), (0.6, 1.3, 1.3)],
)
def test_gi_g_1(tmp_path: Path, load: float, arrival_cv: float, service_cv: float) -> None:
    mean = load / RATE
    found = wait(Gamma(mean, service_cv), tmp_path, arrivals=Renewal(arrival_cv))
    assert found == pytest.approx(spitzer(mean, arrival_cv, service_cv), rel=0.02)


def test_a_heavily_loaded_gi_g_1_comes_close_to_kingmans_formula(tmp_path: Path) -> None:
    mean = 0.95 / RATE
    found = wait(Gamma(mean, 0.5), tmp_path, arrivals=Renewal(0.5))
    kingman = 0.95 / 0.05 * mean * (0.25 + 0.25) / 2
    assert found == pytest.approx(kingman, rel=0.05)
    assert found < kingman  # it is a bound


def test_little(tmp_path: Path) -> None:
    """Records in the system, counted at instants, are their rate times their time in it."""
    engine = started(
        chain("op"), apart(("op", 200)), {"op": OperatorCost(Exponential(0.008))}, "20000/s",
        tmp_path,
        dispatch=Dispatch.CHANCE, options={"step": 0.1, "detail": 0},
    )  # fmt: skip
    engine.advance(5)
    engine.observe()
    inside = []
    for _ in range(300):
        engine.advance(0.1)
        seen = engine.observe()
        inside.append(seen.rows_ingested - seen.rows_delivered)
    time = seen.latency["op->op"].mean
    rate = seen.rows_delivered / seen.at
    assert math.fsum(inside) / len(inside) == pytest.approx(rate * time, rel=0.01)
