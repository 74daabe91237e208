"""`python -m sparkctl`."""

from sparkctl.cli.app import main

if __name__ == "__main__":
    main()
