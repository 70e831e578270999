"""STDDEV and VARIANCE of exact numbers are exact until they are rounded."""

from __future__ import annotations

from decimal import Context, Decimal
from random import Random

import pytest

from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.quotients import deviation, units_of
from tests.duckdb_oracle import connect

WIDE = Context(prec=200)


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize("sample", [True, False])
def test_a_deviation_is_near_the_exact_one(root, sample):
    random = Random(7)
    for _ in range(300):
        places = random.randint(0, 6)
        numbers = [random.randint(-(10**8), 10**8) for _ in range(random.randint(2, 9))]
        total, squares = sum(numbers), sum(n * n for n in numbers)
        found = deviation(len(numbers), total, squares, places, sample=sample, root=root)
        over = Decimal(len(numbers) * squares - total * total).scaleb(-2 * places, WIDE)
        exact = WIDE.divide(over, Decimal(len(numbers) * (len(numbers) - sample)))
        exact = exact.sqrt(WIDE) if root else exact
        near = "1e-8" if root else "1e-13"  # a root has the decimal places of its variance
        assert abs(Decimal(found) - exact) <= WIDE.multiply(exact, Decimal(near))


def test_there_is_no_deviation_of_too_few_numbers():
    assert deviation(1, 5, 25, 0, sample=True, root=True) is None
    assert deviation(0, 0, 0, 0, sample=False, root=False) is None
    assert deviation(1, 5, 25, 0, sample=False, root=True) == f"0.{0:020d}"


def test_a_variance_of_too_many_digits_is_refused():
    with pytest.raises(TypeMismatch, match="The variance is out of range"):
        deviation(2, 0, 2 * 10**38, 0, sample=False, root=False)


def test_numbers_of_several_scales_have_one_unit():
    assert units_of(["1.5", "-2", "0.25"]) == (2, [150, -200, 25])


def test_halves_of_the_largest_numbers_add_up():
    numbers = [2**63 - 1, -(2**63), 12345, -(2**33)]
    parts = "sum(h * h), sum(h * l), sum(CAST(l AS UBIGINT) * CAST(l AS UBIGINT))"
    rows = ", ".join(f"(CAST('{n}' AS BIGINT))" for n in numbers)
    halves = f"SELECT x >> 32 AS h, x & 4294967295 AS l FROM (VALUES {rows}) v(x)"
    with connect() as database:
        ((high, mixed, low),) = database.sql(f"SELECT {parts} FROM ({halves})").fetchall()
    assert (high << 64) + (mixed << 33) + low == sum(n * n for n in numbers)
