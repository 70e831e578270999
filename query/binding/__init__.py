"""From a syntax tree to bound blocks: names, in a catalog."""
