"""`railyard simulate`: a cluster that does not exist, measured by the real schedule."""
