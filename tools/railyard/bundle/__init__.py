"""A run as one archive for others: names, addresses, serials and keys replaced by stand-ins, consistently."""
