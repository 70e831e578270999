"""The table store over HBase's Thrift 1 servers."""
