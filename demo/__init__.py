"""The demo: TPC-W from schema to verified views, on an embedded database."""
