"""Law: Hornbeam answers every case of the corpus as PostgreSQL does, except where a difference is
declared with a reason; and no declared difference is out of date."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from hornbeam_server.schema.types import Kind
from tests.postgres.corpus import Answer, missing, recorded
from tests.postgres.differences import (
    DECLARED,
    KINDS,
    declared,
    kind_of,
    observed,
    pruned,
    unexpected,
)
from tests.postgres.hornbeam import Found


@pytest.fixture(scope="module")
def differing(tmp_path_factory):
    return asyncio.run(observed(tmp_path_factory.mktemp("postgres")))[0]


def test_postgresql_has_answered_every_case():
    _, answers = recorded()
    assert not [*missing(answers)], "Run python -m tests.postgres.ask."
    assert len(answers) > 3000


def test_every_difference_is_declared(differing):
    new, _ = unexpected(differing, declared())
    assert not new, "Mend them, or declare them in differences.toml."


def test_every_declared_difference_occurs(differing):
    _, gone = unexpected(differing, declared())
    assert not gone, "Run python -m tests.postgres.differences --prune."


def test_every_declared_difference_has_a_kind_a_title_and_a_reason():
    cases = [case for each in declared() for case in each.cases]
    assert len(cases) == len(set(cases))
    assert all(each.kind in KINDS and each.title and each.reason for each in declared())


def test_pruning_leaves_no_difference_without_cases():
    form = "[[difference]]\nkind = \"value\"\ntitle = '{0}'\nreason = \"r\"\ncases = '''\n{1}'''\n"
    text = "\n".join((form.format("a", "1 + 1\n"), form.format("b", "2\n3\n")))
    assert pruned(text, ["1 + 1", "3"]) == form.format("b", "2\n")
    assert pruned(DECLARED.read_text(), []) == DECLARED.read_text()


TWO = Answer(("integer",), (("1",), ("2",)))
NULL = Answer(("text",), ((None,),))


@pytest.mark.parametrize(
    ("case", "wanted", "found", "kind"),
    [
        ("1", Answer(("numeric",), (("1.50",),)), Found((Kind.DECIMAL,), ((Decimal("1.5"),),)),
         None),
        ("1", Answer(("numeric",), (("1.50",),)), Found((Kind.DOUBLE,), ((1.5,),)), "type"),
        ("1", Answer(("numeric",), (("1.51",),)), Found((Kind.DOUBLE,), ((1.5,),)), "value"),
        ("1", Answer(("double precision",), (("NaN",),)), Found((Kind.DOUBLE,), ((float("nan"),),)),
         None),
        ("1", Answer(("text",), (("1",),)), Found((Kind.INTEGER,), ((1,),)), "type"),
        ("1", Answer(("boolean",), (("t",),)), Found((Kind.BOOLEAN,), ((False,),)), "value"),
        ("1", NULL, Found((None,), ((None,),)), None),
        ("1", NULL, Found((Kind.TEXT,), (("",),)), "value"),
        ("1", Answer(error="22012"), Found(error="x"), None),
        ("1", Answer(error="22012"), Found((Kind.DOUBLE,), ((1.0,),)), "accepted"),
        ("1", NULL, Found(error="x"), "error"),
        ("1", NULL, Found(error="x", refused=True), "refused"),
        ("SELECT a FROM t", TWO, Found((Kind.INTEGER,), ((2,), (1,))), None),
        ("SELECT a FROM t ORDER BY a", TWO, Found((Kind.INTEGER,), ((2,), (1,))), "value"),
        ("SELECT a FROM t", TWO, Found((Kind.INTEGER,), ((1,), (1,))), "value"),
        ("SELECT a FROM t", TWO, Found((Kind.INTEGER,), ((1,),)), "value"),
    ],
)  # fmt: skip
def test_differences_are_classified(case, wanted, found, kind):
    assert kind_of(case, wanted, found) == kind
