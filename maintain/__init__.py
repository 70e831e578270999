"""How a view is kept: changes, maintenance programs, indexes, the life cycle of a view.

Pure but for a read port (`storage.snapshot.RowReader`).
"""
