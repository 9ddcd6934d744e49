"""What every command stands on: paths, errors, locks, the terminal."""
