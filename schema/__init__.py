"""Relations, keys, foreign keys and types; layouts of stored data; the catalog.

Everything here is frozen data and pure functions. It imports no other package of Hornbeam.
"""
