"""The catalog's JSON form: it is decoded exactly; any other input is Corruption."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.altered import placed
from hornbeam_server.schema.catalog import (
    Catalog,
    Forest,
    Index,
    IndexExpression,
    Load,
    Purpose,
    State,
    WorkloadStatement,
)
from hornbeam_server.schema.codec import decode_catalog, encode_catalog
from hornbeam_server.schema.copies import Copy, copies_for
from hornbeam_server.schema.counters import Beginning
from hornbeam_server.schema.ddl import load_ddl, render_ddl
from hornbeam_server.schema.enumerated import in_positions
from hornbeam_server.schema.errors import Corruption
from hornbeam_server.schema.model import (
    Check,
    Column,
    DeclaredView,
    Default,
    DefaultKind,
    KeyPart,
    Refresh,
    Relation,
    Schema,
)
from hornbeam_server.schema.stages import added_names, first_stage, undone, with_hidden
from hornbeam_server.schema.types import JSONB, ColumnType, Declared, Kind, array_of
from hornbeam_server.schema.views import (
    Computed,
    DeferredView,
    FoldedColumn,
    Folding,
    ImmediateView,
    JoinView,
    PartialAggregate,
    PlainView,
    ProjectedView,
    StateLayout,
    ViewColumn,
)
from tests.strategies import schemas


@st.composite
def catalogs(draw: st.DrawFn) -> Catalog:
    schema = draw(schemas(with_defaults=True))
    edges = tuple(
        (relation.name, relation.foreign_keys[0])
        for relation in schema.relations
        if relation.foreign_keys and relation.foreign_keys[0].parent != relation.name
    )
    views = tuple(_view(schema, name) for name, _ in edges)
    indexes = tuple(
        Index(f"x_{view.name}", view.name, (KeyPart(view.columns[0].name, True),), (), True, p, "é")
        for view, p in zip(views, Purpose, strict=False)
    )
    roots = tuple(set(schema.names) - {name for name, _ in edges})
    return Catalog(
        draw(st.integers(0, 1 << 62)),
        schema,
        Forest(roots, edges),
        views,
        indexes,
        tuple((view.name, draw(st.sampled_from(State))) for view in views),
        tuple((view.name, 3) for view in views),
        (WorkloadStatement("w", "SELECT '\u2028'", draw(st.floats(0, 1e9))),),
        tuple((name, 10) for name in schema.names),
        draw(st.integers(0, 1 << 62)),
        draw(st.sampled_from([(), tuple(_deferred(relation) for relation in schema.relations)])),
        draw(st.sampled_from([None, Load(schema.names, "é", 1 << 40)])),
    )


def _deferred(relation: Relation) -> DeferredView:
    declared = DeclaredView(f"d_{relation.name}", "SELECT \u2028", 0.1, "é")
    key = tuple(KeyPart(name, True) for name in relation.primary_key)
    state = StateLayout("sums", relation.columns, key)
    hidden = (Column("_copy", ColumnType(Kind.BIGINT), False),)
    return DeferredView(declared, (relation.name,), relation.columns, hidden, key, (state,))


def _view(schema: Schema, child: str) -> JoinView:
    edge = schema.relation(child).foreign_keys[0]
    columns = tuple(
        ViewColumn(column, relation, column)
        for relation in (edge.parent, child)
        for column in schema.relation(relation).column_names
    )
    return JoinView(f"v_{child}", (edge.parent, child), (edge,), columns)


@given(catalogs())
def test_a_catalog_survives_a_round_trip(catalog: Catalog) -> None:
    catalog.layout(catalog.schema.names[0])  # fills caches, which are not encoded
    data = encode_catalog(catalog)
    decoded = decode_catalog(data)
    assert decoded == catalog
    assert repr(decoded.schema) == repr(catalog.schema)  # 1.50 is not 1.5, 1 is not True
    assert encode_catalog(decoded) == data


EMPTY = Catalog(0, Schema(()), Forest(()))
SEVENTH = (Path(__file__).parent / "fixtures" / "catalog_7.json").read_bytes()
"""A catalog with an immediate view, as the first version that has them writes it."""
EIGHTH = (Path(__file__).parent / "fixtures" / "catalog_8.json").read_bytes()
"""A catalog with a foreign key, as the last version without row identities and ON UPDATE writes
it."""

NINTH = (Path(__file__).parent / "fixtures" / "catalog_9.json").read_bytes()
"""A catalog with a CHECK, as the first version that has them writes it."""

TENTH = (Path(__file__).parent / "fixtures" / "catalog_10.json").read_bytes()
"""A catalog with a dropped column, and one with another default than its older rows have."""

ELEVENTH = (Path(__file__).parent / "fixtures" / "catalog_11.json").read_bytes()
"""A catalog with an index on an expression."""


def test_the_format_comes_first() -> None:
    assert encode_catalog(EMPTY).startswith(b'{"format":1,"version":0,')


def test_newer_features_raise_the_format_number() -> None:
    view = DeferredView(DeclaredView("v", "SELECT 1"), (), (), (), (), ())
    assert encode_catalog(replace(EMPTY, deferred=(view,))).startswith(b'{"format":2,')
    again = DeclaredView("v", "SELECT 1", refresh=Refresh.RECOMPUTE)
    views = replace(EMPTY, schema=replace(EMPTY.schema, views=(again,)))
    assert encode_catalog(views).startswith(b'{"format":4,')
    load = Load(("r",), "files", 3)
    assert encode_catalog(replace(EMPTY, load=load)).startswith(b'{"format":3,')


def test_a_catalog_from_before_deferred_views_is_read() -> None:
    """The form is that of an older version."""
    form = (
        b'{"format":1,"version":3,"relations":[{"name":"r","columns":[{"name":"a","type":'
        b'{"kind":"integer","precision":null,"scale":null,"length":null},"nullable":false}],'
        b'"primary_key":["a"],"foreign_keys":[]}],"declared_indexes":[],"forest":{"roots":["r"],'
        b'"parents":[]},"views":[],"indexes":[],"states":[],"incarnations":[["r",1]],'
        b'"workload":[],"row_counts":[],"since":0}'
    )
    column = Column("a", ColumnType(Kind.INTEGER), False)
    schema = Schema((Relation("r", (column,), ("a",)),))
    assert decode_catalog(form) == Catalog(3, schema, Forest(("r",)), incarnations=(("r", 1),))


def test_declared_types_raise_the_format_number_and_are_decoded() -> None:
    small = Column("a", ColumnType(Kind.INTEGER, declared=Declared.SMALLINT), False)
    catalog = Catalog(1, Schema((Relation("r", (small,), ("a",)),)), Forest(("r",)))
    data = encode_catalog(catalog)
    assert data.startswith(b'{"format":5,')
    assert decode_catalog(data) == catalog
    assert decode_catalog(data).schema.relation("r").columns == (small,)


def test_a_catalog_from_before_row_identities_is_read() -> None:
    schema = load_ddl(
        "CREATE TABLE p (k INT PRIMARY KEY, u TEXT DEFAULT 'x' UNIQUE);"
        "CREATE TABLE c (i BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,"
        " k INT REFERENCES p ON DELETE SET NULL);"
    )
    edge = schema.relation("c").foreign_keys[0]
    catalog = Catalog(3, schema, Forest(("p",), (("c", edge),)), aggregates=False)
    assert EIGHTH.startswith(b'{"format":8,')
    assert decode_catalog(EIGHTH) == catalog
    assert encode_catalog(catalog).startswith(b'{"format":8,')


@pytest.mark.parametrize(
    "options", ["ON UPDATE CASCADE", "ON DELETE SET DEFAULT", "(u) ON DELETE CASCADE"]
)
def test_new_kinds_of_references_raise_the_format_number(options: str) -> None:
    parent = "CREATE TABLE p (k INT PRIMARY KEY, u INT UNIQUE);"
    reference = options if options.startswith("(") else f"(k) {options}"
    schema = load_ddl(
        f"{parent} CREATE TABLE c (i INT PRIMARY KEY, k INT REFERENCES p {reference})"
    )
    data = encode_catalog(Catalog(1, schema, Forest(("p", "c"))))
    assert data.startswith(b'{"format":9,')
    assert decode_catalog(data).schema == schema


def test_a_copy_raises_the_format_number_and_is_decoded() -> None:
    schema = load_ddl("CREATE TABLE r (a INT PRIMARY KEY, b INT)")
    target = load_ddl("CREATE TABLE r (a INT PRIMARY KEY, b TEXT DEFAULT 'x', CHECK (b <> ''))")
    copy = Copy(target.relation("r"), (("b", "b + 1"),))
    states = ((copy.name, State.BUILDING),)
    catalog = Catalog(1, schema, Forest(("r",)), states=states, copies=(copy,))
    data = encode_catalog(catalog)
    assert data.startswith(b'{"format":11,')
    assert decode_catalog(data) == catalog
    assert encode_catalog(replace(catalog, copies=())).startswith(b'{"format":1,')


def test_a_row_identity_raises_the_format_number_and_is_decoded() -> None:
    catalog = Catalog(1, load_ddl("CREATE TABLE r (a INT)"), Forest(("r",)))
    data = encode_catalog(catalog)
    assert data.startswith(b'{"format":9,')
    assert decode_catalog(data) == catalog
    assert decode_catalog(data).visible("r") == catalog.schema.relation("r").visible


def test_immediate_views_raise_the_format_number_and_are_decoded() -> None:
    declared = DeclaredView(
        "v", "SELECT g, sum(x) AS s FROM t GROUP BY g", refresh=Refresh.IMMEDIATE
    )
    text, number = ColumnType(Kind.TEXT), ColumnType(Kind.DECIMAL, 38, 2)
    lane = Column("_lane", ColumnType(Kind.INTEGER), nullable=False)
    sums = (Column("_count", ColumnType(Kind.BIGINT)), Column("sum0", number))
    cells = StateLayout(
        "cells", (Column("g0", text), lane, *sums), (KeyPart("g0"), KeyPart("_lane"))
    )
    values = StateLayout("values0", (Column("g0", text), lane), (KeyPart("g0"), KeyPart("_lane")))
    view = ImmediateView(
        declared,
        ("t",),
        (Column("g", text), Column("s", number)),
        (Column("_h", text),),
        (KeyPart("g"),),
        cells,
        (FoldedColumn(Folding.GROUP, 0), FoldedColumn(Folding.SUM, 3, 2)),
        grouped=False,
        values=(values,),
    )
    catalog = replace(EMPTY, immediate=(view,))
    assert encode_catalog(catalog) == SEVENTH
    assert decode_catalog(SEVENTH) == catalog
    expressions = ('"g"', '"c" / 2', '"h"')
    computed = Computed((Column("c", number),), (view.folded[1],), expressions, '"c" > 1')
    catalog = replace(EMPTY, immediate=(replace(view, computed=computed),))
    plain = ProjectedView(declared, ("t",), view.columns, view.hidden, view.key)
    for newer in (catalog, replace(EMPTY, projected=(plain,))):
        data = encode_catalog(newer)
        assert data.startswith(b'{"format":8,')
        assert decode_catalog(data) == newer
    chosen = replace(EMPTY, immediate=(replace(view, chosen=True),))
    assert encode_catalog(chosen).startswith(b'{"format":8,')
    assert decode_catalog(encode_catalog(chosen)) == chosen


def test_a_choice_without_aggregate_views_raises_the_format_number() -> None:
    catalog = replace(EMPTY, aggregates=False)
    assert encode_catalog(catalog).startswith(b'{"format":8,')
    assert decode_catalog(encode_catalog(catalog)) == catalog


def test_immediate_views_of_older_catalogs_are_declared() -> None:
    """The form is that of the version before chosen aggregate views."""
    form = (
        b'{"format":7,"version":3,"relations":[],"declared_indexes":[],"forest":{"roots":[],'
        b'"parents":[]},"views":[],"indexes":[],"states":[["v","readable"]],'
        b'"incarnations":[["v",1]],"workload":[],"row_counts":[],"immediate":[{"declared":{'
        b'"name":"v","sql":"SELECT count(*) AS n FROM t","interval_s":5.0,"group":"default",'
        b'"refresh":"immediate"},"relations":["t"],"columns":[{"name":"n","type":{'
        b'"kind":"bigint"},"nullable":true}],"hidden":[],"key":[],"cells":{"name":"cells",'
        b'"columns":[],"key":[]},"folded":[{"folding":"count","position":1,"count":0}],'
        b'"grouped":false}]}'
    )
    catalog = decode_catalog(form)
    assert [(view.name, view.chosen) for view in catalog.immediate] == [("v", False)]
    assert catalog.aggregates


def test_checks_raise_the_format_number_and_are_decoded() -> None:
    column = Column("a", ColumnType(Kind.INTEGER), False)
    relation = Relation("r", (column,), ("a",), checks=(Check("r_a_check", "a > 0"),))
    catalog = Catalog(1, Schema((relation,)), Forest(("r",)))
    assert encode_catalog(catalog) == NINTH
    assert decode_catalog(NINTH) == catalog


def test_altered_relations_raise_the_format_number_and_are_decoded() -> None:
    first = load_ddl("CREATE TABLE r (a INT PRIMARY KEY, b INT, c INT DEFAULT 1)")
    second = load_ddl("CREATE TABLE r (a INT PRIMARY KEY, c INT DEFAULT 2)")
    catalog = Catalog(1, placed(second, first), Forest(("r",)))
    assert encode_catalog(catalog) == TENTH
    assert decode_catalog(TENTH) == catalog
    assert decode_catalog(TENTH).schema.relation("r").column("c").value_in_older_rows == 1


@pytest.mark.parametrize(
    "type_", [ColumnType(Kind.TIME), ColumnType(Kind.TIME, 2), ColumnType(Kind.TIMESTAMP, 0)]
)
def test_types_of_format_10_raise_the_format_number_and_are_decoded(type_: ColumnType) -> None:
    columns = (Column("a", ColumnType(Kind.INTEGER), False), Column("b", type_))
    catalog = Catalog(1, Schema((Relation("r", columns, ("a",)),)), Forest(("r",)))
    data = encode_catalog(catalog)
    assert data.startswith(b'{"format":10,')
    assert decode_catalog(data) == catalog


def test_renames_raise_the_format_number_and_are_decoded() -> None:
    index = Index("new", "r", (KeyPart("a"),))
    schema = load_ddl("CREATE TABLE r (a INT PRIMARY KEY)")
    catalog = Catalog(1, schema, Forest(("r",)), indexes=(index,), incarnations=(("new", 7),))
    assert catalog.layout("new").table == "i.new.7"
    catalog = replace(catalog, stored_as=(("new", "old"),))
    assert catalog.layout("new").table == "i.old.7"
    counted = replace(catalog, stored_as=(), beginnings=(Beginning("r", "a", 3, 1, "r\0b"),))
    for each in (catalog, counted):
        assert encode_catalog(each).startswith(b'{"format":10,')
        assert decode_catalog(encode_catalog(each)) == each


def test_computed_columns_raise_the_format_number_and_are_decoded() -> None:
    type_ = ColumnType(Kind.INTEGER)
    for default in (
        Default(DefaultKind.GENERATED, sql="a + 1"),
        Default(DefaultKind.EXPRESSION, sql="1 + 1"),
        Default(DefaultKind.UUID),
    ):
        columns = (Column("a", type_, False), Column("b", type_, default=default))
        catalog = Catalog(1, Schema((Relation("r", columns, ("a",)),)), Forest(("r",)))
        data = encode_catalog(catalog)
        assert data.startswith(b'{"format":9,')
        assert decode_catalog(data) == catalog


def test_numeric_columns_of_older_catalogs_keep_their_type() -> None:
    form = (
        b'{"format":1,"version":3,"relations":[{"name":"r","columns":[{"name":"a","type":'
        b'{"kind":"decimal","precision":18,"scale":3,"length":null},"nullable":false}],'
        b'"primary_key":["a"],"foreign_keys":[]}],"declared_indexes":[],"forest":{"roots":["r"],'
        b'"parents":[]},"views":[],"indexes":[],"states":[],"incarnations":[["r",1]],'
        b'"workload":[],"row_counts":[],"since":0}'
    )
    (column,) = decode_catalog(form).schema.relation("r").columns
    assert column.type == ColumnType(Kind.DECIMAL, 18, 3)
    assert str(column.type.coerce("1.0005")) == "1.001"


def damaged(**changes: object) -> bytes:
    return json.dumps(json.loads(encode_catalog(EMPTY)) | changes).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        encode_catalog(EMPTY)[:-1],
        b"\xff\xfe",
        damaged(format=99),
        damaged(version="1"),
        damaged(
            relations=[
                {
                    "name": "r",
                    "columns": [
                        {
                            "name": "a",
                            "type": {"kind": "integer"},
                            "nullable": True,
                            "default": {"kind": "literal", "value": "x"},
                        }
                    ],
                    "primary_key": ["a"],
                    "foreign_keys": [],
                }
            ]
        ),
    ],
)
def test_damaged_catalogs_are_corruption(data: bytes) -> None:
    with pytest.raises(Corruption, match="catalog cannot be read") as caught:
        decode_catalog(data)
    assert caught.value.cure


def test_plain_views_raise_the_format_number_and_are_decoded() -> None:
    schema = load_ddl("CREATE TABLE r (a INT PRIMARY KEY); CREATE VIEW v AS SELECT a FROM r;")
    before = Catalog(1, replace(schema, views=()), Forest(("r",)))
    assert encode_catalog(before).startswith(b'{"format":1,')
    view = PlainView(schema.views[0], ("r",), (Column("a", ColumnType(Kind.INTEGER)),))
    catalog = replace(before, schema=schema, plain=(view,))
    data = encode_catalog(catalog)
    assert data.startswith(b'{"format":10,')
    assert decode_catalog(data) == catalog
    assert decode_catalog(data).plain_view == {"v": view}


def test_partial_indexes_raise_the_format_number_and_are_decoded() -> None:
    schema = load_ddl("CREATE TABLE r (a INT PRIMARY KEY); CREATE INDEX i ON r (a) WHERE a > 1;")
    index = Index("i", "r", (KeyPart("a"),), where="a > 1")
    catalog = Catalog(1, schema, Forest(("r",)), indexes=(index,))
    assert encode_catalog(catalog).startswith(b'{"format":10,')
    assert decode_catalog(encode_catalog(catalog)) == catalog


def test_indexes_on_expressions_raise_the_format_number_and_are_decoded() -> None:
    schema = load_ddl("CREATE TABLE r (a INT PRIMARY KEY); CREATE INDEX i ON r ((a + 1));")
    expression = IndexExpression("(a + 1)", "a + 1", ColumnType(Kind.INTEGER))
    index = Index("i", "r", (KeyPart("(a + 1)"),), expressions=(expression,))
    catalog = Catalog(1, schema, Forest(("r",)), indexes=(index,))
    assert encode_catalog(catalog) == ELEVENTH
    assert decode_catalog(ELEVENTH) == catalog
    dropped = replace(catalog, schema=replace(schema, indexes=()))
    equal_nulls = replace(index, expressions=(), unique=True, nulls_distinct=False)
    for each in (dropped, replace(dropped, indexes=(equal_nulls,))):
        assert encode_catalog(each).startswith(b'{"format":11,')
        assert decode_catalog(encode_catalog(each)) == each


DOCUMENTS = (Path(__file__).parent / "fixtures" / "catalog_10_jsonb.json").read_bytes()
"""A catalog with a column of JSONB, as the first version that has them writes it."""


def test_jsonb_raises_the_format_number_and_is_decoded() -> None:
    columns = (Column("a", ColumnType(Kind.INTEGER), False), Column("j", JSONB))
    catalog = Catalog(1, Schema((Relation("r", columns, ("a",)),)), Forest(("r",)))
    assert encode_catalog(catalog) == DOCUMENTS
    assert decode_catalog(DOCUMENTS) == catalog


ARRAYS = (Path(__file__).parent / "fixtures" / "catalog_11_arrays.json").read_bytes()
"""A catalog with a column of arrays that has a default."""


def test_arrays_raise_the_format_number_and_are_decoded() -> None:
    default = Default(DefaultKind.LITERAL, ("a", None, 'b "c"'))
    arrays = Column("t", array_of(ColumnType(Kind.TEXT, length=9)), False, default)
    columns = (Column("a", ColumnType(Kind.INTEGER), False), arrays)
    catalog = Catalog(1, Schema((Relation("r", columns, ("a",)),)), Forest(("r",)))
    assert encode_catalog(catalog) == ARRAYS
    assert decode_catalog(ARRAYS) == catalog


CHARACTERS = (Path(__file__).parent / "fixtures" / "catalog_11_char.json").read_bytes()
"""A catalog with columns of CHAR(n) and BPCHAR."""


def test_char_raises_the_format_number_and_is_decoded() -> None:
    char = ColumnType(Kind.TEXT, length=4, declared=Declared.CHAR)
    columns = (Column("a", char, False), Column("b", replace(char, length=None)))
    catalog = Catalog(1, Schema((Relation("r", columns, ("a",)),)), Forest(("r",)))
    assert encode_catalog(catalog) == CHARACTERS
    assert decode_catalog(CHARACTERS) == catalog
    assert [column.type.ddl() for column in columns] == ["CHAR(4)", "BPCHAR"]


REALS = (Path(__file__).parent / "fixtures" / "catalog_13_real.json").read_bytes()
"""A catalog with columns of REAL and REAL[]."""


def test_real_raises_the_format_number_and_is_decoded() -> None:
    schema = load_ddl("CREATE TABLE r (a INT PRIMARY KEY, b REAL DEFAULT 0.1, c FLOAT(24)[])")
    catalog = Catalog(1, schema, Forest(("r",)))
    assert encode_catalog(catalog) == REALS
    assert decode_catalog(REALS) == catalog
    assert [column.type.ddl() for column in schema.relation("r").columns[1:]] == ["REAL", "REAL[]"]


LIVE = (Path(__file__).parent / "fixtures" / "catalog_14_live.json").read_bytes()
"""A catalog with a live view."""


def test_live_views_raise_the_format_number_and_are_decoded() -> None:
    schema = load_ddl(
        "CREATE TABLE r (a INT PRIMARY KEY);"
        "CREATE MATERIALIZED VIEW v WITH (refresh = 'live') AS SELECT a FROM r;"
    )
    view = replace(_deferred(schema.relation("r")), declared=schema.views[0])
    catalog = Catalog(1, schema, Forest(("r",)), deferred=(view,))
    assert encode_catalog(catalog) == LIVE
    assert decode_catalog(LIVE) == catalog
    assert decode_catalog(LIVE).schema.views[0].refresh is Refresh.LIVE


LABELS = (Path(__file__).parent / "fixtures" / "catalog_15_enumerations.json").read_bytes()
"""A catalog with an enumeration that has got labels between others."""


def test_enumerations_raise_the_format_number_and_are_decoded() -> None:
    text = (
        "CREATE SCHEMA shop; CREATE TYPE shop.size AS ENUM ({});"
        "CREATE TABLE r (a shop.size PRIMARY KEY, b shop.size[] DEFAULT '{{S,L}}');"
    ).format
    before, after = load_ddl(text("'S', 'L'")), load_ddl(text("'XS', 'S', 'M', 'L'"))
    catalog = Catalog(1, in_positions(after, before), Forest(("r",)))
    assert encode_catalog(catalog) == LABELS
    assert decode_catalog(LABELS) == catalog
    assert decode_catalog(LABELS).schema.enumerations[0].positions == ("6", "c", "i", "o")


DOMAINS = (Path(__file__).parent / "fixtures" / "catalog_16_domains.json").read_bytes()
"""A catalog with domains."""


def test_domains_raise_the_format_number_and_are_decoded() -> None:
    schema = load_ddl(
        "CREATE SCHEMA shop; CREATE DOMAIN shop.price AS DECIMAL(8,2) DEFAULT 1 CHECK (VALUE > 0);"
        "CREATE DOMAIN low AS shop.price NOT NULL CONSTRAINT below CHECK (VALUE < 10);"
        "CREATE TABLE r (a low PRIMARY KEY, b low DEFAULT 2, c shop.price NOT NULL DEFAULT NULL);"
    )
    catalog = Catalog(1, schema, Forest(("r",)))
    assert encode_catalog(catalog) == DOMAINS
    assert decode_catalog(DOMAINS) == catalog
    assert [str(each.origin and each.origin.domain) for each in schema.relation("r").checks] == [
        *("low", "low", "low", "low", "shop.price")
    ]


RENAMED = (Path(__file__).parent / "fixtures" / "catalog_12_renamed.json").read_bytes()
"""A catalog with a renamed relation, and a new one of its old name."""


def test_renamed_relations_raise_the_format_number_and_are_decoded() -> None:
    schema = load_ddl("CREATE TABLE r (a INT PRIMARY KEY); CREATE TABLE s (a INT PRIMARY KEY);")
    stored = (("r", "r..2"), ("s", "r"))
    catalog = Catalog(1, schema, Forest(("r", "s")), stored_as=stored)
    assert encode_catalog(catalog) == RENAMED
    assert decode_catalog(RENAMED) == catalog
    assert [catalog.layout(name).table for name in ("r", "s")] == ["r.r..2.0", "r.r.0"]
    assert [catalog.layout(name).stored_name for name in ("r", "s")] == ["r..2", "r"]


SPACES = (Path(__file__).parent / "fixtures" / "catalog_12_spaces.json").read_bytes()
"""A catalog with a relation in a schema, and a schema that is empty."""


def test_schemas_raise_the_format_number_and_are_decoded() -> None:
    schema = load_ddl("CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE b.r (x INT PRIMARY KEY);")
    catalog = Catalog(1, schema, Forest(("b.r",)))
    assert encode_catalog(catalog) == SPACES
    assert decode_catalog(SPACES) == catalog
    public = replace(catalog, schema=replace(schema, spaces=()))
    assert encode_catalog(public).startswith(b'{"format":1,')


COPIES = (Path(__file__).parent / "fixtures" / "catalog_11_copies.json").read_bytes()
"""A catalog with a copy under way, before copies could take numbers."""
NUMBERED = (Path(__file__).parent / "fixtures" / "catalog_17_numbers.json").read_bytes()
"""A catalog with a copy under way that takes numbers, also from a new sequence."""


def test_copies_that_take_numbers_raise_the_format_number_and_are_decoded() -> None:
    before = load_ddl("CREATE TABLE r (a INT PRIMARY KEY, b INT);")
    after = load_ddl(
        "CREATE SEQUENCE s; CREATE TABLE r (a INT PRIMARY KEY, b INT, c SERIAL,"
        " d INT DEFAULT nextval('s'));"
    )
    (numbered,) = copies_for(before, after)
    assert numbered.draws == ("c", "d")
    target = before.relation("r")
    for copy, form in ((Copy(target, (("b", "a + 1"),)), COPIES), (numbered, NUMBERED)):
        catalog = Catalog(1, before, Forest(("r",)), copies=(copy,))
        assert encode_catalog(catalog) == form
        assert decode_catalog(form) == catalog
    assert catalog.counters["r", "c"].sequence == "r_c_seq"
    assert catalog.sequences["s"].relation == ""


STAGED = (Path(__file__).parent / "fixtures" / "catalog_18_stages.json").read_bytes()
"""A catalog between the two stages of a change: a relation gets a key from a new sequence, and
another one has none any more."""


def test_changes_in_two_stages_raise_the_format_number_and_are_decoded() -> None:
    before = load_ddl("CREATE TABLE r (a INT PRIMARY KEY); CREATE TABLE t (a INT);")
    after = load_ddl(
        "CREATE SEQUENCE s; CREATE TABLE r (a INT NOT NULL);"
        " CREATE TABLE t (a INT, b INT DEFAULT nextval('s') PRIMARY KEY);"
    )
    stage = first_stage(before, after)
    assert stage is not None
    schema = with_hidden(stage.base, stage.columns)
    names = added_names(before, schema)
    assert names == (("r", "rowid"), ("t", "b"), ("", "s"))
    catalog = Catalog(1, schema, Forest(("r", "t")), staged=names)
    assert encode_catalog(catalog) == STAGED
    assert decode_catalog(STAGED) == catalog
    assert render_ddl(undone(schema, names)) == render_ddl(before)
    for copy in copies_for(before, schema):
        copied = encode_catalog(Catalog(1, before, Forest(("r", "t")), copies=(copy,)))
        assert copied.startswith(b'{"format":18,')


PARTIAL = (Path(__file__).parent / "fixtures" / "catalog_19_partials.json").read_bytes()
"""A catalog with a deferred view that keeps a partial aggregate."""


def test_partial_aggregates_raise_the_format_number_and_are_decoded() -> None:
    schema = load_ddl("CREATE TABLE r (a INT PRIMARY KEY);")
    view = _deferred(schema.relation("r"))
    catalog = Catalog(1, schema, Forest(("r",)), deferred=(view,))
    assert encode_catalog(catalog).startswith(b'{"format":2,')
    assert b"partials" not in encode_catalog(catalog)
    kept = replace(view, partials=(PartialAggregate(0, (0, 2), 1_000, 25),))
    catalog = replace(catalog, deferred=(kept,))
    assert encode_catalog(catalog) == PARTIAL
    assert decode_catalog(PARTIAL) == catalog
