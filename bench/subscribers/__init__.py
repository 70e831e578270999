"""What many subscribers of one view cost a node."""
