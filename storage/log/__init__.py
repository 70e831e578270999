"""The log's format, byte by byte in `FORMAT.md`; adapters write and read these bytes."""
