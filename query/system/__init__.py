"""The relations that describe the database: `information_schema` and `pg_catalog`."""
