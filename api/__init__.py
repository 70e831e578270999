"""The REST interface of a node, and the program that serves it."""
