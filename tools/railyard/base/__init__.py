"""The basis of every command: paths, errors, locks, the terminal."""
