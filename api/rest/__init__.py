"""The REST interface: requests and responses, authentication, limits on bodies, metrics."""
