"""Results of any size as Arrow, for DuckDB, pandas, Polars or Parquet files.

hornbeam demo --serve          # in one terminal: TPC-W at port 8780
python examples/analysis.py orders.parquet
"""

import os
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import hornbeam

URL = os.environ.get("HORNBEAM_URL", "hornbeam://127.0.0.1:8780")
ORDERS = """
SELECT o_id, o_date, o_total, co_name
FROM orders JOIN address ON o_bill_addr_id = addr_id JOIN country ON addr_co_id = co_id
"""


def export(db: hornbeam.Connection, file: str) -> int:
    """Write the orders to a Parquet file, batch by batch. Returns their number."""
    rows, writer = 0, None
    for batch in db.cursor().arrow_batches(ORDERS):
        writer = writer or pq.ParquetWriter(file, batch.schema)
        writer.write_batch(batch)
        rows += batch.num_rows
    if writer is not None:
        writer.close()
    return rows


def turnover(db: hornbeam.Connection) -> pa.Table:
    """The five countries with the largest turnover, computed by DuckDB in this process.

    `orders.to_pandas()` and `polars.from_arrow(orders)` are the same rows as data frames.
    """
    orders = db.cursor().arrow(ORDERS)
    with duckdb.connect() as engine:
        engine.register("orders", orders)
        return engine.sql(
            "SELECT co_name, count(*) AS orders, sum(o_total) AS total"
            " FROM orders GROUP BY co_name ORDER BY total DESC, co_name LIMIT 5"
        ).to_arrow_table()


if __name__ == "__main__":
    with hornbeam.connect(URL) as db:
        for line in turnover(db).to_pylist():
            print(f"{line['co_name']:30} {line['orders']:6,} orders {line['total']:14,}")
        print(f"{export(db, sys.argv[1]):,} orders are in {sys.argv[1]}")
