"""The built-in lab: nodes, rails and faults on one machine."""
