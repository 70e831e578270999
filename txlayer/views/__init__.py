"""Verification of views, and the groups in which deferred views are refreshed."""
