"""The end state of the nodes, read by a program of its own: the second opinion on roles and modules."""
