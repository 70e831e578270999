"""Subscriptions: the changes of relations and views, as they happen."""
