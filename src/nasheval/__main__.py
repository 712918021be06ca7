"""`python -m nasheval` is the command line."""

from nasheval.cli import main

if __name__ == "__main__":
    main()
