"""`hornbeam reconcile`: compare views, indexes and constraints with the base relations, by Spark.

`plan` lists the scans, `expected` computes the expected rows from base rows, `scans` compares in
the executors, `immediate` compares the sums of immediate views, `deferred` computes the expected
rows of deferred views, `report` holds and sums the findings, `job` is the driver, and `page`
renders the report as HTML.
"""
