"""The composition root and the REST interface.

`Database` puts adapters, transaction layer and queries together; `create_app` serves one over
HTTP. The in-process client uses the same application without a socket.
"""
