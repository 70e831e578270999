"""Traces and metrics by OpenTelemetry's protocol, an extra of the distribution."""
