"""The bytes of protocol 3.0, without input and output: frames, messages of clients, answers."""
