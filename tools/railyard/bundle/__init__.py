"""A run as one archive to pass on: names, addresses, serials and keys consistently replaced by stand-ins."""
