"""Relations, keys, foreign keys and types; what is stored where (layouts); the catalog.

Everything here is frozen data and pure functions. It imports nothing else of ours.
"""
