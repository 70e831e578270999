"""COPY: its statement, and its formats text, CSV and binary, without input and output."""
