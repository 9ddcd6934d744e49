"""Railyard's command line, lab and report: what talks to a person."""
