"""`python -m ampere` is the command line."""

from ampere.cli import main

if __name__ == "__main__":
    main()
