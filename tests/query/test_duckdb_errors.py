"""DuckDB's errors about ranges have the words of ours, and SQL's names of types."""

import pytest

from hornbeam_server.query.workers.control import Options
from hornbeam_server.query.workers.messages import Query
from hornbeam_server.query.workers.statements import Statements
from hornbeam_server.schema.errors import TypeMismatch

LARGEST = 2**127 - 1
ERRORS = {
    "2147483647::INTEGER + 1::INTEGER": "Overflow in addition of INTEGER: 2147483647 and 1.",
    "(-32768)::SMALLINT - 1::SMALLINT": "Overflow in subtraction of SMALLINT: -32768 and 1.",
    "9223372036854775807 - (-1)": "Overflow in subtraction of BIGINT: 9223372036854775807 and -1.",
    f"{LARGEST}::HUGEINT * 2": f"Overflow in multiplication of DECIMAL(38,0): {LARGEST} and 2.",
    f"{10**37}::DECIMAL(38,0) * 90": f"Overflow in multiplication of DECIMAL: {10**37} and 90.",
    "100000::INTEGER::SMALLINT": "100000 is out of range for SMALLINT.",
    "9999999999::BIGINT::INTEGER": "9999999999 is out of range for INTEGER.",
    "1e30::DOUBLE::BIGINT": "1e+30 is out of range for BIGINT.",
    "1e300::DOUBLE::FLOAT": "1e+300 is out of range for REAL.",
    "1234567.5::DECIMAL(10,1)::SMALLINT": "1234568 is out of range for SMALLINT.",
}


@pytest.fixture(scope="module")
def statements():
    made = Statements(Options())
    yield made
    made.close()


@pytest.mark.parametrize("expression", ERRORS)
def test_errors_about_ranges_have_our_words(statements, expression):
    with pytest.raises(TypeMismatch) as raised:
        statements.answer(Query(f"SELECT {expression}", {}))
    assert raised.value.message == ERRORS[expression]
