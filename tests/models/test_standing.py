"""What is kept up to date is what would be reckoned anew."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.models import rates
from penstock.models.etp import etp
from penstock.models.standing import Standing
from penstock.models.topology import Topology
from tests.models import dags
from tests.strategies import few


@few
@given(dags.flows(), st.data())
def test_after_any_changes_all_is_as_if_reckoned_anew(
    flow: tuple[Topology, rates.Rates], data: st.DataObject
) -> None:
    found, now = flow
    standing = Standing.of(found, now, 1.2)
    for _ in range(4):
        name = data.draw(st.sampled_from(found.order))
        factor = data.draw(st.sampled_from((0.3, 1.5, 2.0, 5.0)))
        change = data.draw(st.sampled_from((rates.faster, rates.fuller)))
        standing = standing.after(change(found, standing.rates, name, factor))
        anew = Standing.of(found, standing.rates, 1.2)
        assert standing.masks == anew.masks
        assert standing.rows.tolist() == anew.rows.tolist()
        assert standing.worth == anew.worth
        assert (standing.best, standing.congested) == (anew.best, anew.congested)


@few
@given(dags.flows())
def test_worth_is_what_the_percentage_is_of(flow: tuple[Topology, rates.Rates]) -> None:
    found, now = flow
    shares, whole = etp(found, now, 1.2), rates.throughput(found, now)
    standing = Standing.of(found, now, 1.2)
    for name, (rows, congestion, _) in standing.worth.items():
        assert rows == pytest.approx(shares[name] * whole)
        assert congestion == now[name].congestion > 1.2
    assert (standing.best is None) == (not standing.worth)
