"""The routes of the REST interface, a module per tag."""
