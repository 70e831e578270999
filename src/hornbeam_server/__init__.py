"""The Hornbeam server.

Its packages are folders of the repository's root, to which the links beside this file point. They
have one name in front, so that they clash with no module of another program.
"""

__version__ = "0.1.0"
