"""A Spark job over PostgreSQL's JDBC driver; it prints what it has found.

python -m tests.pgwire.spark_jdbc URL JAR FOLDER
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.pipeline.spark_here import QUICK_JAVA


def main(url: str, jar: str, folder: str) -> None:
    source = {"url": url, "user": "ann", "driver": "org.postgresql.Driver", "fetchsize": 100}
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jar)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", QUICK_JAVA)
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", folder)
    )
    with builder.getOrCreate() as spark:

        def read(**options: object) -> DataFrame:
            return spark.read.format("jdbc").options(**source, **options).load()

        sale = read(dbtable="sale")
        print("types:", *(f"{field.name} {field.dataType.simpleString()}" for field in sale.schema))
        print("rows:", sale.count(), sale.agg(f.sum("s_value")).collect()[0][0])
        parts = read(
            dbtable="sale", partitionColumn="s_id", lowerBound=0, upperBound=1_000, numPartitions=4
        )
        print("parts:", parts.rdd.getNumPartitions(), parts.select("s_id").distinct().count())
        found = sale.where((f.col("s_shop") == "north") & (f.col("s_id") < 5)).orderBy("s_id")
        print("filtered:", *(f"{row.s_id} {row.s_at}" for row in found.collect()))
        totals = read(query="SELECT s_shop, sum(s_value) AS total FROM sale GROUP BY s_shop")
        totals.write.format("jdbc").mode("append").options(**source, dbtable="total").save()
        print("written:", *(f"{shop} {total}" for shop, total in totals.sort("s_shop").collect()))


if __name__ == "__main__":
    main(*sys.argv[1:])
