"""Decimals in the checksum: equal to the float that is written the same way, else to the digit."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.verify.checksum import digest, digest_rows

DECIMALS = st.decimals(min_value=-(10**17), max_value=10**17, places=2)


def table(*values: Decimal | None) -> pa.Table:
    return pa.table({"d": pa.array(values, pa.decimal128(20, 2))})


@given(DECIMALS, DECIMALS)
def test_decimals_are_equal_if_all_their_digits_are(one: Decimal, two: Decimal) -> None:
    assert (digest(table(one)) == digest_rows([(two,)])) == (one == two)


def test_large_decimals_that_a_float_cannot_tell_apart_differ() -> None:
    close = Decimal("12345678901234567.89"), Decimal("12345678901234567.12")
    assert digest(table(close[0])) != digest_rows([(close[1],)])
    nested = [[({"x": value},)] for value in close]
    assert digest_rows(nested[0]) != digest_rows(nested[1])


@pytest.mark.parametrize("value", ["0.1", "2.50", "3", "-7.00"])
def test_a_decimal_equals_the_float_that_is_written_the_same_way(value: str) -> None:
    assert digest(table(Decimal(value))) == digest_rows([(float(value),)])


def test_null_among_decimals() -> None:
    assert digest(table(None, Decimal("1.5"))) == digest_rows([(None,), (1.5,)])
    assert digest(table()).rows == 0
