"""Options of the data sources."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import ClassVar

from pyspark.sql.datasource import DataSource

from hornbeam_server.schema.errors import InvalidRequest


class OptionSource(DataSource):
    """A data source that takes the options `OPTIONS` (lower case), and no others."""

    OPTIONS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.require_only(self.OPTIONS)

    def require_only(self, known: frozenset[str]) -> None:
        """Check that all options are `known`. Raises InvalidRequest."""
        unknown = sorted({name.lower() for name in self.options} - known)
        if unknown:
            raise InvalidRequest(
                f"There is no option {', '.join(unknown)}.",
                cure=f"There are: {', '.join(sorted(known))}.",
            )

    def required(self, name: str) -> str:
        """The value of an option. Raises InvalidRequest when it is missing."""
        found = self.options.get(name)
        if found is None:
            raise InvalidRequest(
                f"The option {name} is missing.", cure="docs/spark.md lists the options."
            )
        return found
