"""The session of a client, between the messages of the protocol and a session of `hornbeam`."""
