"""SQLAlchemy over an event loop: `create_async_engine`, AsyncSession."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import (
    ForeignKey,
    MetaData,
    Numeric,
    String,
    Table,
    exc,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship, selectinload

import hornbeam
from hornbeam import aio
from hornbeam.sqlalchemy_asyncio import HornbeamAsyncDialect
from tests.client import client_world


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(40), unique=True)
    books: Mapped[list[Book]] = relationship(order_by="Book.id")


class Book(Base):
    __tablename__ = "book"
    id: Mapped[int] = mapped_column(primary_key=True)
    author_id: Mapped[int] = mapped_column(ForeignKey("author.id", ondelete="CASCADE"))
    price: Mapped[Decimal] = mapped_column(Numeric(10, 2))


@pytest.fixture(params=["embedded", "http"])
async def engine(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[AsyncEngine]:
    if request.param == "embedded":
        engine = create_async_engine(client_world.embedded(tmp_path / "db"))
        yield engine
        await engine.dispose()
        return
    with client_world.served(tmp_path / "db") as url:
        engine = create_async_engine(url)
        yield engine
        await engine.dispose()


async def _filled(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with AsyncSession(engine) as session, session.begin():
        session.add(Author(name="A", books=[Book(price=Decimal(n)) for n in (1, 2)]))


async def test_sessions_write_read_and_reflect(engine: AsyncEngine) -> None:
    assert isinstance(engine.dialect, HornbeamAsyncDialect)
    await _filled(engine)
    async with AsyncSession(engine) as session:
        found = await session.scalars(select(Author).options(selectinload(Author.books)))
        author = found.one()
        assert [book.price for book in author.books] == [Decimal("1.00"), Decimal("2.00")]
        author.name = "B"
        await session.delete(author.books[0])
        await session.commit()
    async with engine.connect() as connection:
        assert await connection.scalar(select(func.count()).select_from(Book)) == 1
        names = await connection.run_sync(lambda c: inspect(c).get_table_names())
        assert sorted(names) == ["author", "book"]
        table = await connection.run_sync(lambda c: Table("book", MetaData(), autoload_with=c))
        assert {column.name for column in table.columns} == {"id", "author_id", "price"}
        assert (await connection.scalars(select(Author.name))).all() == ["B"]


async def test_savepoints_and_errors_are_those_of_the_driver(engine: AsyncEngine) -> None:
    await _filled(engine)
    async with AsyncSession(engine) as session, session.begin():
        with pytest.raises(exc.IntegrityError) as caught:
            async with session.begin_nested():
                session.add(Author(name="A"))
        assert isinstance(caught.value.orig, hornbeam.IntegrityError)
        session.add(Author(name="C"))
    async with engine.connect() as connection:
        names = (await connection.scalars(select(Author.name).order_by(Author.name))).all()
        assert names == ["A", "C"]


async def test_a_conflict_of_two_sessions_is_an_error_of_the_commit(engine: AsyncEngine) -> None:
    await _filled(engine)
    async with AsyncSession(engine) as first, AsyncSession(engine) as second:
        for session in (first, second):
            author = (await session.scalars(select(Author))).one()
            author.name += "!"
        await first.commit()
        with pytest.raises(exc.OperationalError):
            await second.commit()


async def test_autocommit_and_the_connection_of_the_driver(engine: AsyncEngine) -> None:
    await _filled(engine)
    automatic = engine.execution_options(isolation_level="AUTOCOMMIT")
    async with automatic.connect() as connection:
        await connection.execute(text("DELETE FROM book"))
        raw = await connection.get_raw_connection()
        assert isinstance(raw.driver_connection, aio.Connection)
        assert raw.driver_connection.autocommit
    async with engine.connect() as connection:
        assert await connection.scalar(select(func.count()).select_from(Book)) == 0


async def test_a_slow_statement_does_not_stop_the_loop(engine: AsyncEngine) -> None:
    await _filled(engine)
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0)
            gaps.append(time.monotonic() - before)

    async with engine.connect() as connection:
        ticking = asyncio.create_task(tick())
        slow = select(func.count()).select_from(func.generate_series(1, 3_000_000).alias("g"))
        assert await connection.scalar(slow) == 3_000_000
        ticking.cancel()
    assert len(gaps) > 20


async def test_a_cancelled_statement_leaves_the_engine_usable(engine: AsyncEngine) -> None:
    await _filled(engine)

    async def ask() -> None:
        async with engine.connect() as connection:
            await connection.execute(text("SELECT count(*) FROM generate_series(1, 3000000) g"))

    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(ask(), 0.001)
    async with engine.connect() as connection:
        assert await connection.scalar(select(func.count()).select_from(Author)) == 1
