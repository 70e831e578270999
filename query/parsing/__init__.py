"""From SQL text to one checked syntax tree, without a catalog."""
