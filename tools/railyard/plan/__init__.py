"""The plan of a fabric as text and as a picture."""
