"""placeholder until the command line lands."""
def main() -> None:
    """Run."""
