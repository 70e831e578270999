"""A web application with FastAPI: reads that views answer, and a transaction.

hornbeam demo --serve          # in one terminal: TPC-W at port 8780
uvicorn --app-dir examples web:app    # in another one; then open http://127.0.0.1:8000/docs
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException

from hornbeam.aio import Connection
from hornbeam.pool import AsyncPool

URL = os.environ.get("HORNBEAM_URL", "hornbeam://127.0.0.1:8780")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncPool(URL, max_size=20) as app.state.pool:
        yield


app = FastAPI(title="Bookshop", lifespan=lifespan)


@app.get("/books")
async def books(subject: str) -> list[dict[str, Any]]:
    """The newest books of a subject. A view joins them with their authors."""
    async with app.state.pool.connection() as db:
        cursor = db.cursor()
        await cursor.execute(
            "SELECT i_id, i_title, a_fname, a_lname FROM item JOIN author ON i_a_id = a_id"
            " WHERE i_subject = ? ORDER BY i_pub_date DESC, i_title LIMIT 50",
            [subject],
        )
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) async for row in cursor]


@app.post("/books/{book}/sales", status_code=201)
async def sell(book: int, quantity: int = 1) -> dict[str, int]:
    """Take books from the stock. `run` repeats the transaction if another one was faster."""

    async def take(db: Connection) -> int:
        cursor = db.cursor()
        await cursor.execute("SELECT i_stock FROM item WHERE i_id = ?", [book])
        row = await cursor.fetchone()
        if row is None:
            raise HTTPException(404, "no such book")
        if row[0] < quantity:
            raise HTTPException(409, f"only {row[0]} left")
        await cursor.execute(
            "UPDATE item SET i_stock = ? WHERE i_id = ?", [row[0] - quantity, book]
        )
        return row[0] - quantity

    return {"left": await app.state.pool.run(take)}
