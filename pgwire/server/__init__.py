"""Connections of clients: sockets, TLS, authentication, and requests to the application."""
