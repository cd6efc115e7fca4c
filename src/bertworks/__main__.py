"""`python -m bertworks` is the `bertworks` command."""

from bertworks.cli.main import main

if __name__ == "__main__":
    main()
