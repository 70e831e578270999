"""View maintenance: changes, maintenance programs, indexes, and the life cycle of a view.

The only input or output is a read port (`storage.snapshot.RowReader`).
"""
