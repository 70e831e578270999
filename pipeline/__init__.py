"""Work on whole relations, by Spark: reading them (`source`)."""
