"""View selection: from a schema and a workload to rooted trees, views and indexes.

Pure functions from frozen data to frozen data (seed 002, sections V and VI). `plan.plan` is the
way in; what it returns explains itself.
"""
