"""`railyard new-inventory`: a first inventory from a few answers."""
