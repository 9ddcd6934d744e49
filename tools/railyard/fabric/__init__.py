"""`railyard fabric`: a whole InfiniBand fabric read from one node, judged, and drawn."""
