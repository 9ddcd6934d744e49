"""Continuous validation: idle nodes, weekly runs of them, drains by verdict, runs kept and removed."""
