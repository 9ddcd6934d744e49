"""Commands that run playbooks: site, verify, validate and the like."""
