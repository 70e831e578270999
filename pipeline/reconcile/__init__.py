"""`hornbeam reconcile`: what is stored beside base relations, compared with them by Spark.

`plan` says what is read, `expected` makes of base rows what should be stored, `scans` compares in
the executors, `deferred` says what should be stored of deferred views, `report` adds up, `job` is
the driver, and `page` draws the report for people.
"""
