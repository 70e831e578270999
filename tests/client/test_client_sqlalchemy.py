"""The SQLAlchemy dialect against an embedded database. SQLAlchemy's own suite is run by
`test_compliance_*.py`."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Computed,
    Engine,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Numeric,
    Sequence,
    String,
    Table,
    any_,
    case,
    create_engine,
    delete,
    exc,
    func,
    inspect,
    literal,
    select,
    text,
    types,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

import hornbeam
from hornbeam.isolation import LEVELS
from hornbeam.sqlalchemy import distinct_on, insert
from hornbeam.sqlalchemy_types import column_type
from tests.client import client_world


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(String(40), unique=True)
    books: Mapped[list[Book]] = relationship(back_populates="author", order_by="Book.id")


class Book(Base):
    __tablename__ = "book"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    author_id: Mapped[int] = mapped_column(ForeignKey("author.id", ondelete="CASCADE"))
    price: Mapped[Decimal | None] = mapped_column(Numeric(10, 2))
    out: Mapped[dt.date | None]
    author: Mapped[Author] = relationship(back_populates="books")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(client_world.embedded(tmp_path / "db"))
    yield engine
    engine.dispose()


@pytest.fixture
def filled(engine: Engine) -> Engine:
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(Author(id=1, name="A", books=[Book(id=i, price=Decimal(i)) for i in (1, 2)]))
        session.add(Author(id=2, name="B"))
    return engine


def test_an_engine_connects_without_a_request() -> None:
    """Nothing listens at the address."""
    engine = create_engine("hornbeam://127.0.0.1:9")
    with engine.connect() as connection:
        assert connection.dialect.default_schema_name == "public"
    engine.dispose()


def test_the_orm_writes_reads_and_cascades(filled: Engine) -> None:
    with Session(filled) as session:
        author = session.scalars(select(Author).where(Author.name == "A")).one()
        assert [(book.id, book.price) for book in author.books] == [
            (1, Decimal("1.00")),
            (2, Decimal("2.00")),
        ]
        author.books[0].out = dt.date(2024, 1, 2)
        session.delete(author.books[1])
        session.commit()
        count = session.scalar(select(func.count()).select_from(Book))
        total = session.scalar(select(func.sum(Book.price)))
        assert (count, total) == (1, Decimal("1.00"))
        assert session.get_one(Book, 1).out == dt.date(2024, 1, 2)


class Tagged(DeclarativeBase):
    pass


post_tag = Table(
    "post_tag",
    Tagged.metadata,
    Column("post_id", ForeignKey("post.id", ondelete="CASCADE")),
    Column("tag_id", ForeignKey("tag.id")),
)


class Tag(Tagged):
    __tablename__ = "tag"
    id: Mapped[int] = mapped_column(primary_key=True)


class Post(Tagged):
    __tablename__ = "post"
    id: Mapped[int] = mapped_column(primary_key=True)
    tags: Mapped[list[Tag]] = relationship(secondary=post_tag)


def test_an_association_table_needs_no_primary_key(engine: Engine) -> None:
    Tagged.metadata.create_all(engine)
    with Session(engine) as session:
        one, two = Tag(id=1), Tag(id=2)
        session.add_all([Post(id=1, tags=[one, two]), Post(id=2, tags=[two])])
        session.commit()
        first = session.get_one(Post, 1)
        assert sorted(tag.id for tag in first.tags) == [1, 2]
        first.tags = [two]
        session.commit()
        assert session.execute(select(post_tag).order_by(post_tag.c.post_id)).all() == [
            (1, 2),
            (2, 2),
        ]
        session.delete(session.get_one(Post, 2))
        session.commit()
        assert session.execute(select(post_tag)).all() == [(1, 2)]


def test_a_table_without_a_primary_key_is_made_filled_and_reflected(engine: Engine) -> None:
    """What pandas.to_sql does: it creates a table without a key, and appends batches of rows."""
    declared = Table("frame", MetaData(), Column("n", BigInteger), Column("s", String))
    declared.create(engine)
    rows = [{"n": 1, "s": "a"}, {"n": 1, "s": "a"}, {"n": None, "s": None}]
    for _ in range(2):
        with engine.begin() as connection:
            assert connection.execute(declared.insert(), rows).rowcount == 3
            connection.execute(declared.insert().values(rows))
    found = Table("frame", MetaData(), autoload_with=engine)
    assert [column.name for column in found.columns] == ["n", "s"]
    none = {"constrained_columns": [], "name": None, "comment": None}
    assert inspect(engine).get_pk_constraint("frame") == none
    with engine.begin() as connection:
        assert connection.scalar(select(func.count()).select_from(found)) == 12
        connection.execute(found.delete().where(found.c.n.is_(None)))
        assert connection.execute(select(found)).all() == [(1, "a")] * 8
    with engine.begin() as connection:
        many = [{"n": n, "s": "b"} for n in range(10_001)]
        assert connection.execute(declared.insert(), many).rowcount == 10_001
    declared.drop(engine)


def test_savepoints_undo_failed_and_rolled_back_writes(filled: Engine) -> None:
    with filled.begin() as connection:
        with pytest.raises(exc.IntegrityError), connection.begin_nested():
            connection.execute(insert(Author).values(id=3, name="A"))
        with connection.begin_nested() as nested:
            connection.execute(insert(Author).values(id=4, name="D"))
            nested.rollback()
        connection.execute(insert(Author).values(id=5, name="E"))
    with filled.connect() as connection:
        names = connection.scalars(select(Author.name).order_by(Author.id)).all()
    assert names == ["A", "B", "E"]


def test_on_conflict_updates_or_ignores_rows(filled: Engine) -> None:
    rows = [{"id": 1, "name": "A2"}, {"id": 9, "name": "N"}]
    with filled.begin() as connection:
        upsert = insert(Author).values(rows)
        upsert = upsert.on_conflict_do_update(
            index_elements=["id"], set_={"name": upsert.excluded.name}
        )
        returned = connection.execute(upsert.returning(Author.id, Author.name)).all()
        assert sorted(returned) == [(1, "A2"), (9, "N")]
        ignored = insert(Author).values(rows).on_conflict_do_nothing()
        assert connection.execute(ignored).rowcount == 0
        key = f"{Author.__table__.name}_pkey"
        named = insert(Author).values(rows).on_conflict_do_nothing(constraint=key)
        assert connection.execute(named).rowcount == 0
        some = insert(Author).values(rows)
        where = some.on_conflict_do_nothing(index_elements=["id"], index_where=Author.id > 3)
        assert connection.execute(where).rowcount == 0


@pytest.mark.parametrize(
    "value",
    [b"abc", dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 3), Decimal("1.10"), uuid.UUID(int=5)],
)
def test_literals_have_the_type_of_their_value(engine: Engine, value: object) -> None:
    with engine.connect() as connection:
        assert connection.scalar(select(literal(value))) == value


def test_columns_and_values_combine_in_expressions(filled: Engine) -> None:
    raised = Book.price * Decimal("1.1")
    with Session(filled) as session:
        assert session.scalars(select(raised).order_by(Book.id)).first() == Decimal("1.1")
        session.execute(update(Book).values(price=raised, out=case((Book.id == 1, dt.date.max))))
        session.commit()
        found = session.execute(select(Book.price, Book.out).order_by(Book.id)).all()
    assert found == [(Decimal("1.10"), dt.date.max), (Decimal("2.20"), None)]


def test_updates_and_deletes_join_other_tables(filled: Engine) -> None:
    of_b = (Book.author_id == Author.id) & (Author.name == "A")
    dearest = select(func.max(Book.price)).where(Book.author_id == Author.id).scalar_subquery()
    with filled.begin() as connection:
        raised = update(Book).values(price=Book.price + Author.id).where(of_b)
        found = connection.execute(raised.returning(Book.id, Book.price, Author.name)).all()
        assert sorted(found) == [(1, Decimal("2.00"), "A"), (2, Decimal("3.00"), "A")]
        named = update(Author).values(name=func.concat(Author.name, dearest))
        connection.execute(named.where(Author.id == 1))
        assert connection.scalar(select(Author.name).where(Author.id == 1)) == "A3.00"
        gone = delete(Book).where(Book.author_id == Author.id, Author.id == 1, Book.id == 2)
        assert connection.execute(gone.returning(Book.id, Author.name)).all() == [(2, "A3.00")]


def test_tables_are_in_the_schema_public(engine: Engine) -> None:
    table = Table("p", MetaData(), Column("a", Integer, primary_key=True), schema="public")
    for _ in range(2):
        table.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(table.insert().values(a=1))
        assert connection.scalar(select(table.c.a).where(table.c.a == 1)) == 1
    assert inspect(engine).get_table_names(schema="public") == ["p"]
    assert inspect(engine).get_table_names(schema="other") == []


def test_a_row_may_have_only_defaults(engine: Engine) -> None:
    class Things(DeclarativeBase):
        pass

    class Thing(Things):
        __tablename__ = "thing"
        id: Mapped[int] = mapped_column(primary_key=True)

    Things.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        things = [Thing(), Thing(), Thing()]
        session.add_all(things)
        session.flush()
        assert [thing.id for thing in things] == [1, 2, 3]
        assert session.execute(insert(Thing).returning(Thing.id)).scalar_one() == 4
    with Session(engine) as session:
        assert session.scalars(select(Thing.id).order_by(Thing.id)).all() == [1, 2, 3, 4]


def test_integers_are_divided_exactly(engine: Engine) -> None:
    """Integer division truncates towards zero, as in PostgreSQL."""
    huge = literal(2**53 + 1, BigInteger)
    with engine.connect() as connection:
        quotients = connection.execute(
            select(huge // 1, literal(-7) // 2, literal(7.5) // literal(2.0))
        ).one()
    assert [*quotients] == [2**53 + 1, -3, 3.0]
    assert isinstance(quotients[1], int)


def test_json_paths_are_queried(engine: Engine) -> None:
    metadata = MetaData()
    table = Table("d", metadata, Column("id", Integer, primary_key=True), Column("j", types.JSON))
    metadata.create_all(engine)
    document = {"a": {"b": [1, 2.5, "x"]}, 'q"u.o\\te': "text", "yes": True, "none": None}
    j = table.c.j
    with engine.begin() as connection:
        connection.execute(insert(table).values(id=1, j=document))
        found = connection.execute(
            select(
                j["a"], j[("a", "b", 0)].as_integer(), j[("a", "b", 1)].as_float(),
                j['q"u.o\\te'].as_string(), j["yes"].as_boolean(), j["a"]["b"][-1].as_string(),
                j[("a", "b", 1)].as_numeric(10, 2), j["none"], j["nothing"], j["none"].as_string(),
            )
        ).one()  # fmt: skip
        assert [*found] == [
            document["a"], 1, 2.5, "text", True, "x", Decimal("2.50"), None, None, None,
        ]  # fmt: skip
        where = (j["a"]["b"][0].as_integer() + 1 == 2) & (j['q"u.o\\te'].as_string() == "text")
        assert connection.scalars(select(table.c.id).where(where)).all() == [1]


def test_jsonb_has_the_operators_of_postgresql(engine: Engine) -> None:
    metadata = MetaData()
    columns = Column("id", Integer, primary_key=True), Column("j", postgresql.JSONB)
    table = Table("d", metadata, *columns)
    metadata.create_all(engine)
    j = table.c.j
    with engine.begin() as connection:
        connection.execute(
            insert(table),
            [{"id": 1, "j": {"b": [1, {"c": 2}], "a": "x"}}, {"id": 2, "j": [1, "a"]}],
        )
        assert connection.scalar(select(j).where(table.c.id == 1)) == {"a": "x", "b": [1, {"c": 2}]}
        for condition, wanted in (
            (j.contains({"b": [{"c": 2}]}), [1]),
            (j.contained_by([1, "a", 3]), [2]),
            (j.has_key("a"), [1, 2]),
            (j.has_key("b"), [1]),
            (j["a"].astext == "x", [1]),
            (j[("b", 1, "c")].astext == "2", [1]),
            (j["b"][0].as_integer() == 1, [1]),
            (j == [1, "a"], [2]),
        ):
            found = connection.scalars(select(table.c.id).where(condition).order_by(table.c.id))
            assert found.all() == wanted, condition
    reflected = Table("d", MetaData(), autoload_with=engine)
    assert isinstance(reflected.c.j.type, postgresql.JSONB)


def test_arrays_have_the_operators_of_postgresql(engine: Engine) -> None:
    metadata = MetaData()
    columns = (
        Column("id", Integer, primary_key=True),
        Column("a", postgresql.ARRAY(types.String(9))),
    )
    table = Table("d", metadata, *columns)
    metadata.create_all(engine)
    a, x, y = table.c.a, "x", "y"
    with engine.begin() as connection:
        rows = [{"id": 1, "a": [x, y, None]}, {"id": 2, "a": []}, {"id": 3, "a": None}]
        connection.execute(insert(table), rows)
        for condition, wanted in (
            (a.contains([x]), [1]),
            (a.contained_by([x]), [2]),
            (a.overlap([y, "z"]), [1]),
            (a == [x, y, None], [1]),
            (any_(a) == x, [1]),
            (a[2] == y, [1]),
            (a[1:2] == [x, y], [1]),
            (func.cardinality(a) == 0, [2]),
            (a == postgresql.array([], type_=types.Text), [2]),
        ):
            found = connection.scalars(select(table.c.id).where(condition).order_by(table.c.id))
            assert found.all() == wanted, condition
        assert connection.scalars(select(a).order_by(table.c.id)).all() == [
            each["a"] for each in rows
        ]
    reflected = Table("d", MetaData(), autoload_with=engine).c.a.type
    assert isinstance(reflected, postgresql.ARRAY)
    assert (type(reflected.item_type), reflected.item_type.length) == (types.VARCHAR, 9)


JSON_KEYS = ("a.b", "$", "$.a", "*", "", "/a", 'x"y', "c\\d", "0", "-1", "b[0]", "é", "~", "n\nl")


@pytest.mark.parametrize("key", JSON_KEYS)
def test_any_key_of_json_is_found(engine: Engine, key: str) -> None:
    metadata = MetaData()
    table = Table("d", metadata, Column("id", Integer, primary_key=True), Column("j", types.JSON))
    metadata.create_all(engine)
    document = {each: [number, {each: f"text {number}"}] for number, each in enumerate(JSON_KEYS)}
    found, j = document[key], table.c.j
    with engine.begin() as connection:
        connection.execute(insert(table).values(id=1, j=document))
        row = connection.execute(
            select(j[key], j[key][1][key].as_string(), j[(key, 0)].as_integer(), j[key + "?"])
        ).one()
        assert [*row] == [found, found[1][key], found[0], None]  # type: ignore[index]
        assert connection.scalar(select(j[("*", 0)].as_integer())) == JSON_KEYS.index("*")
        for path in (("*", "0"), ("*", -1)):
            with pytest.raises(exc.StatementError, match="step by step"):
                connection.execute(select(j[path]))


def test_json_columns_take_functions_of_the_engine(tmp_path: Path) -> None:
    engine = create_engine(
        client_world.embedded(tmp_path / "db"),
        json_serializer=lambda value: json.dumps({"wrapped": value}),
        json_deserializer=lambda text: json.loads(text)["wrapped"],
    )
    table = Table("d", MetaData(), Column("id", Integer, primary_key=True), Column("j", types.JSON))
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(insert(table).values(id=1, j=[1, "é"]))
        assert connection.scalar(select(table.c.j)) == [1, "é"]
        stored = connection.scalar(select(table.c.j["wrapped"][0].as_integer()))
        assert stored == 1
    engine.dispose()


def test_rows_are_limited_made_distinct_and_replaced(filled: Engine) -> None:
    author = Author.__table__
    with filled.begin() as connection:
        first = select(author.c.name).order_by(author.c.id)
        assert connection.scalars(first.fetch(literal(3) - 2).offset(literal(2) - 1)).all() == ["B"]
        on = (
            select(func.upper(author.c.name))
            .ext(distinct_on(author.c.name))
            .order_by(author.c.name)
        )
        assert connection.scalars(on).all() == ["A", "B"]
        replaced = author.c.name.regexp_replace("[AB]", "x")
        assert connection.scalars(select(replaced)).all() == ["x", "x"]
        with pytest.raises(exc.CompileError, match="PERCENT"):
            connection.execute(first.fetch(1, percent=True))


def test_fetch_first_takes_rows_that_equal_the_last_one(filled: Engine) -> None:
    author = Author.__table__
    with filled.begin() as connection:
        connection.execute(insert(Author).values([{"id": 8, "name": "CC"}]))
        names = select(author.c.name).order_by(func.length(author.c.name))
        first = names.fetch(1, with_ties=True)
        assert sorted(connection.scalars(first).all()) == ["A", "B"]
        assert len(connection.scalars(names.fetch(literal(3), with_ties=True)).all()) == 3
        assert len(connection.scalars(first.offset(1)).all()) == 1


def test_strings_are_aggregated(filled: Engine) -> None:
    names = func.aggregate_strings(Author.name, ", ")
    with filled.connect() as connection:
        assert sorted(connection.scalar(select(names)).split(", ")) == ["A", "B"]
        in_order = names.aggregate_order_by(Author.id.desc())
        assert connection.scalar(select(in_order)) == "B, A"


def test_isolation_levels_are_those_of_postgresql_and_autocommit(filled: Engine) -> None:
    with filled.connect() as connection:
        assert connection.get_isolation_level() == "REPEATABLE READ"
        levels = connection.dialect.get_isolation_level_values(None)  # type: ignore[arg-type]
        assert list(levels) == [*LEVELS, "AUTOCOMMIT"]
        serializable = connection.execution_options(isolation_level="SERIALIZABLE")
        assert serializable.get_isolation_level() == "SERIALIZABLE"
        count = select(func.count()).select_from(Book)
        assert serializable.scalar(count) == 2
        with filled.begin() as other:
            other.execute(text("INSERT INTO book (id, author_id) VALUES (100, 1)"))
        serializable.execute(text("DELETE FROM book WHERE id = 1"))
        with pytest.raises(exc.OperationalError, match="have changed since"):
            serializable.commit()
    with filled.connect() as connection:
        assert connection.get_isolation_level() == "REPEATABLE READ"
    automatic = filled.execution_options(isolation_level="AUTOCOMMIT")
    with automatic.connect() as connection:
        connection.execute(text("DELETE FROM book"))
        with pytest.raises(hornbeam.InterfaceError, match="autocommit"), connection.begin_nested():
            connection.execute(text("DELETE FROM author"))
    with filled.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(Book)) == 0
        assert connection.scalar(select(func.count()).select_from(Author)) == 2


def test_tables_are_reflected_as_declared(engine: Engine) -> None:
    declared = MetaData()
    Table("p", declared, Column("id", Integer, primary_key=True), Column("n", Numeric(9, 3)))
    child = Table(
        "c",
        declared,
        Column("a", Integer, primary_key=True, autoincrement=False),
        Column("b", String(7), primary_key=True),
        Column("p_id", ForeignKey("p.id", name="to_p", ondelete="SET NULL", onupdate="CASCADE")),
        Column("at", types.TIMESTAMP(timezone=True), nullable=False),
    )
    Index("c_at", child.c.at.desc(), hornbeam_include=["p_id"])
    declared.create_all(engine)
    inspector = inspect(engine)
    assert sorted(inspector.get_table_names()) == ["c", "p"]
    key = {"constrained_columns": ["a", "b"], "name": "c_pkey", "comment": None}
    assert inspector.get_pk_constraint("c") == key
    (key,) = inspector.get_foreign_keys("c")
    assert (key["name"], key["referred_table"], key["options"]) == (
        "to_p", "p", {"ondelete": "SET NULL", "onupdate": "CASCADE"},
    )  # fmt: skip
    (index,) = inspector.get_indexes("c")
    assert index["column_sorting"] == {"at": ("desc",)}
    assert index["dialect_options"] == {"hornbeam_include": ["p_id"]}
    reflected = Table("c", MetaData(), autoload_with=engine)
    assert {c.name: (str(c.type), c.nullable) for c in reflected.columns} == {
        "a": ("INTEGER", False), "b": ("VARCHAR(7)", False), "p_id": ("INTEGER", True),
        "at": ("TIMESTAMP", False),
    }  # fmt: skip
    assert reflected.c.at.type.timezone
    assert inspector.get_columns("p")[0]["identity"]["start"] == 1
    assert "minvalue" not in inspector.get_columns("p")[0]["identity"]
    options = {"always": True, "start": 40, "increment": -2, "minvalue": -8}
    MetaData().create_all(engine)
    Table(
        "numbered", made := MetaData(), Column("n", Integer, Identity(**options), primary_key=True)
    )
    made.create_all(engine)
    assert inspect(engine).get_columns("numbered")[0]["identity"] == options
    made.drop_all(engine)
    assert not inspector.has_table("nothing")
    with pytest.raises(exc.NoSuchTableError):
        inspector.get_columns("nothing")
    declared.drop_all(engine)
    assert inspect(engine).get_table_names() == []


def test_columns_are_reflected_with_their_declared_types(engine: Engine) -> None:
    declared = Table(
        "t",
        MetaData(),
        Column("a", types.SmallInteger, primary_key=True, autoincrement=False),
        Column("b", postgresql.TIMESTAMP(precision=3)),
        Column("c", postgresql.TIMESTAMP(precision=0, timezone=True)),
        Column("d", postgresql.TIME(precision=2)),
        Column("e", Numeric),
        Column("f", types.Time),
    )
    for _ in range(2):  # the reflected table is declared like the first one
        declared.create(engine)
        declared = Table("t", MetaData(), autoload_with=engine)
        assert [repr(column.type) for column in declared.columns] == [
            "SMALLINT()", "TIMESTAMP(precision=3)", "TIMESTAMP(timezone=True, precision=0)",
            "TIME(precision=2)", "NUMERIC()", "TIME()",
        ]  # fmt: skip
        declared.drop(engine)


def test_a_type_of_a_newer_server_is_reflected_with_a_warning() -> None:
    with pytest.warns(exc.SAWarning, match="TENSOR"):
        assert isinstance(column_type("TENSOR(3)"), types.NullType)


def test_checks_are_declared_reflected_and_enforced(engine: Engine) -> None:
    declared = MetaData()
    Table(
        "t",
        declared,
        Column("a", Integer, CheckConstraint("a > 0"), primary_key=True, autoincrement=False),
        Column("b", Integer),
        CheckConstraint("b IS NULL OR b < 10", name="small"),
    )
    declared.create_all(engine)
    found = {
        check["name"]: check["sqltext"] for check in inspect(engine).get_check_constraints("t")
    }
    assert found == {"t_a_check": "a > 0", "small": "b IS NULL OR b < 10"}
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO t VALUES (1, NULL)"))
    with engine.connect() as connection, pytest.raises(exc.IntegrityError, match="small"):
        connection.execute(text("INSERT INTO t VALUES (2, 10)"))
    with engine.connect() as connection:
        driver = connection.connection.dbapi_connection
        assert driver is not None
        driver.cursor().execute("ALTER TABLE t DROP CONSTRAINT small")
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO t VALUES (2, 10)"))


def test_generated_columns_are_declared_and_reflected(engine: Engine) -> None:
    declared = MetaData()
    table = Table(
        "t",
        declared,
        Column("a", Integer, primary_key=True, autoincrement=False),
        Column("b", Integer, Computed("a * 2 + 1")),
        Column("c", String(9), Computed("CAST(a AS TEXT)", persisted=True), nullable=False),
    )
    declared.create_all(engine)
    with engine.begin() as connection:
        written = connection.execute(insert(table).values(a=4).returning(table.c.b)).scalar()
        assert written == 9
        connection.execute(update(table).values(a=5))
        assert [*connection.execute(select(table)).one()] == [5, 11, "5"]
    found = {column["name"]: column.get("computed") for column in inspect(engine).get_columns("t")}
    assert found == {
        "a": None,
        "b": {"sqltext": "a * 2 + 1", "persisted": True},
        "c": {"sqltext": "CAST(a AS TEXT)", "persisted": True},
    }
    reflected = MetaData()
    reflected.reflect(engine)
    declared.drop_all(engine)
    reflected.create_all(engine)
    virtual = Table("v", MetaData(), Column("a", Integer, Computed("1", persisted=False)))
    with pytest.raises(exc.CompileError, match="persisted=True"):
        virtual.create(engine)


def test_views_are_reflected_as_materialised(tmp_path: Path) -> None:
    where = client_world.embedded(tmp_path / "db")
    client_world.apply(where)
    engine = create_engine(where)
    inspector = inspect(engine)
    assert inspector.get_materialized_view_names() == ["author__book"]
    assert inspector.get_view_names() == []
    columns = [column["name"] for column in inspector.get_columns("author__book")]
    assert columns[:3] == ["a_id", "a_name", "b_id"]
    assert inspector.has_table("author__book")
    (unique,) = (i for i in inspector.get_indexes("book") if i["name"] == "book_title")
    assert unique["column_names"] == ["b_title"]
    engine.dispose()


def test_immediate_views_are_reflected_and_read(tmp_path: Path) -> None:
    where = client_world.embedded(tmp_path / "db")
    select_sql = "SELECT b_a_id, count(*) AS n, sum(b_stock) AS stock FROM book GROUP BY b_a_id"
    view = f"CREATE MATERIALIZED VIEW stocked WITH (refresh = 'immediate') AS {select_sql};"
    client_world.apply(where, client_world.DDL + view)
    engine = create_engine(where)
    inspector = inspect(engine)
    assert "stocked" in inspector.get_materialized_view_names()
    assert inspector.get_view_definition("stocked") == select_sql
    stocked = Table("stocked", MetaData(), autoload_with=engine)
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO author VALUES (1, 'Borges')"))
        connection.execute(text("INSERT INTO book VALUES (1, 1, 'a', 2, 3), (2, 1, 'b', 2, 4)"))
    with engine.connect() as connection:
        assert connection.execute(select(stocked)).fetchall() == [(1, 2, 7)]
    engine.dispose()


IMMEDIATE = """
CREATE MATERIALIZED VIEW per_title WITH (refresh = 'immediate') AS
SELECT b_a_id, b_title, sum(b_stock) / count(*) AS mean FROM book GROUP BY b_a_id, b_title
HAVING count(*) > 1;
CREATE INDEX by_title ON per_title (b_title DESC, b_a_id);
CREATE MATERIALIZED VIEW shelf WITH (refresh = 'immediate') AS
SELECT b_id, a_name, b_stock FROM book JOIN author ON b_a_id = a_id WHERE b_stock > 0;
CREATE INDEX by_name ON shelf (a_name);
CREATE MATERIALIZED VIEW titles WITH (refresh = 'immediate') AS SELECT b_title FROM book;
"""


def test_the_keys_and_indexes_of_immediate_views_are_reflected(tmp_path: Path) -> None:
    where = client_world.embedded(tmp_path / "db")
    client_world.apply(where, client_world.DDL + IMMEDIATE)
    engine = create_engine(where)
    found = MetaData()
    groups, shelf, titles = (
        Table(name, found, autoload_with=engine) for name in ("per_title", "shelf", "titles")
    )
    assert [c.name for c in groups.primary_key] == ["b_a_id", "b_title"]
    assert [c.name for c in shelf.primary_key] == ["b_id"]
    assert list(titles.primary_key) == []
    assert isinstance(groups.c.mean.type, types.BigInteger)
    ((by_title,), (by_name,)) = groups.indexes, shelf.indexes
    assert (by_title.name, [c.name for c in by_title.columns]) == (
        "by_title",
        ["b_title", "b_a_id"],
    )
    assert (by_name.name, [c.name for c in by_name.columns]) == ("by_name", ["a_name"])
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO author VALUES (1, 'Borges')"))
        connection.execute(text("INSERT INTO book VALUES (1, 1, 'a', 2, 3), (2, 1, 'a', 2, 4)"))
    with engine.connect() as connection:
        one = select(groups).where(groups.c.b_title == "a")
        assert connection.execute(one).fetchall() == [(1, "a", 3)]
        two = select(shelf.c.b_id).where(shelf.c.a_name == "Borges").order_by(shelf.c.b_id)
        assert connection.execute(two).scalars().all() == [1, 2]
        assert connection.execute(select(titles)).fetchall() == [("a",), ("a",)]
    engine.dispose()


def test_names_may_hold_quotes(engine: Engine) -> None:
    declared = MetaData()
    parent = Table('it\'s "x"', declared, Column('a " b', Integer, primary_key=True))
    child = Table(
        "child's",
        declared,
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column('"ref"', ForeignKey(parent.c['a " b'])),
        Column("it''s", String(9), CheckConstraint("\"it''s\" <> 'no'"), unique=True),
    )
    declared.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(parent).values({'a " b': 1}))
        connection.execute(insert(child).values({"id": 1, '"ref"': 1, "it''s": "x"}))
        joined = select(parent.c['a " b'], child.c["it''s"]).join_from(parent, child)
        assert connection.execute(joined).all() == [(1, "x")]
        grouped = select(child.c['"ref"'], func.stddev(child.c.id)).group_by(child.c['"ref"'])
        assert connection.execute(grouped).all() == [(1, None)]
        connection.execute(update(child).values({"it''s": child.c["it''s"] + "'"}))
        assert connection.scalar(select(child.c["it''s"]).where(child.c["it''s"] == "x'")) == "x'"
    found = inspect(engine)
    assert [column["name"] for column in found.get_columns("child's")] == ["id", '"ref"', "it''s"]
    (key,) = found.get_foreign_keys("child's")
    assert (key["referred_table"], key["referred_columns"]) == ('it\'s "x"', ['a " b'])
    declared.drop_all(engine)


def test_tables_share_a_sequence(engine: Engine) -> None:
    declared = MetaData()
    numbers = Sequence("shared numbers", start=7, metadata=declared)
    first = Table("first_of_two", declared, Column("id", Integer, numbers, primary_key=True))
    second = Table(
        "second_of_two",
        declared,
        Column("id", Integer, primary_key=True, server_default=numbers.next_value()),
        Column("note", String),
    )
    declared.create_all(engine)
    with engine.begin() as connection:
        assert connection.execute(insert(first)).inserted_primary_key == (7,)
        notes = [{"note": "a"}, {"note": "b"}]
        found = connection.scalars(insert(second).returning(second.c.id), notes).all()
        assert sorted(found) == [8, 9]
        assert connection.scalar(numbers) == 10
        assert connection.scalar(select(numbers.next_value())) == 11
    assert inspect(engine).get_sequence_names() == ["shared numbers"]
    assert inspect(engine).has_sequence("shared numbers")
    declared.drop_all(engine)
    assert not inspect(engine).has_sequence("shared numbers")


REFUSED = (exc.CompileError, exc.ProgrammingError, exc.NotSupportedError)


def test_unsupported_definitions_are_refused(engine: Engine) -> None:
    for table in (
        Table("t", MetaData(), Column("a", types.Time(timezone=True), primary_key=True)),
        Table("t", MetaData(), Column("a", String, primary_key=True), schema="s"),
    ):
        with pytest.raises(REFUSED, match=r"TIME|no schema \"s\""):
            table.create(engine)


@pytest.mark.parametrize("name", ["DECIMAL(15,2)", "VARCHAR(20)", "INTEGER", "UUID", "JSON"])
def test_types_keep_their_names(name: str) -> None:
    assert str(column_type(name)).replace(" ", "") == name


def test_domains_are_reflected_and_created_again_with_their_columns(engine: Engine) -> None:
    with engine.begin() as connection:
        for statement in (
            "CREATE SCHEMA shop",
            "CREATE DOMAIN shop.price AS DECIMAL(8,2) CHECK (VALUE > 0)",
            'CREATE DOMAIN "Word" AS TEXT NOT NULL',
            'CREATE TABLE t (id INT PRIMARY KEY, p shop.price, w "Word")',
        ):
            connection.exec_driver_sql(statement)
    price, word = (column["type"] for column in inspect(engine).get_columns("t")[1:])
    assert (price.schema, price.name, str(price.data_type)) == ("shop", "price", "DECIMAL(8, 2)")
    assert (word.schema, word.name) == (None, "Word")
    assert inspect(engine).get_check_constraints("t") == []
    columns = Table("t", MetaData(), autoload_with=engine).columns
    copied = Table(
        "u", MetaData(), *(Column(c.name, c.type, primary_key=c.primary_key) for c in columns)
    )
    copied.create(engine)
    with pytest.raises(IntegrityError, match="price_check"), engine.begin() as connection:
        connection.execute(insert(copied).values(id=1, p=0, w="w"))
    with engine.begin() as connection:
        connection.execute(insert(copied).values(id=1, p=2, w="w"))
        assert connection.execute(select(copied)).all() == [(1, Decimal(2), "w")]


def test_enumerations_are_reflected_with_their_labels(engine: Engine) -> None:
    with engine.begin() as connection:
        for statement in (
            "CREATE TYPE size AS ENUM ('S', 'XL', 'L')",
            "CREATE TABLE t (id INT PRIMARY KEY, s size, a size[])",
            "INSERT INTO t VALUES (1, 'L', '{XL}'), (2, 'S', NULL)",
        ):
            connection.exec_driver_sql(statement)
    size, sizes = (column["type"] for column in inspect(engine).get_columns("t")[1:])
    assert (size.name, size.enums) == ("size", ["S", "XL", "L"])
    assert sizes.item_type.enums == ["S", "XL", "L"]
    table = Table("t", MetaData(), autoload_with=engine)
    with engine.begin() as connection:
        query = select(table).where(table.c.s >= "S").order_by(table.c.s)
        assert connection.execute(query).all() == [(2, "S", None), (1, "L", ["XL"])]
