"""Definitions of tables in HBase through Thrift 1 gateways."""

from __future__ import annotations

from typing import Any

from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.storage.hbase import definitions, names
from hornbeam_server.storage.hbase.calls import Client
from hornbeam_server.storage.hbase.gateways import NO_NAMESPACE
from hornbeam_server.storage.hbase.thrift1 import tables
from hornbeam_server.storage.hbase.thrift1.interface import THRIFT


class Definitions(definitions.Definitions):
    """Creates, drops and lists the tables of the namespace, which must exist: Thrift 1 makes
    none. A new table has one region."""

    def _make(self, client: Client, name: Any, splits: list[bytes]) -> None:
        """Create a table that did not exist shortly before. Raises InvalidRequest if there is no
        namespace."""
        try:
            client.createTable(name, tables.families())
        except THRIFT.IOError as error:
            if NO_NAMESPACE not in error.message:
                raise
            namespace = self._calls.namespace
            raise InvalidRequest(
                f"HBase has no namespace {namespace}, and a Thrift 1 gateway cannot make it.",
                cure=f"Make it in HBase's shell: create_namespace '{namespace}'.",
            ) from None

    def _tables(self, client: Client) -> list[str]:
        of_namespace = f"{self._calls.namespace}:".encode()
        return sorted(
            names.decode(name.removeprefix(of_namespace))
            for name in client.getTableNames()
            if name.startswith(of_namespace)
        )
