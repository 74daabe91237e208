"""`python -m sparkctl`."""

import sys

from sparkctl.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
