"""`railyard discover`: write an inventory from what the nodes themselves say, or say what changed since."""
