"""What all Spark jobs share: sessions, exports of key ranges, the sink of rows, error messages."""
