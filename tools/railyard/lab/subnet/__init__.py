"""A simulated InfiniBand subnet: ibsim with a net made from an inventory, opensm on it, and faults."""
