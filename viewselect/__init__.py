"""View selection: from a schema and a workload to rooted trees, views and indexes.

Pure functions from frozen data to frozen data (Synergy, sections V and VI). The entry point is
`plan.plan`; the plan that it returns can explain itself.
"""
