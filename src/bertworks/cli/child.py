"""`python -m bertworks.cli.child` is the command for a process that shall not outlive its starter.

It ends, whatever it does, when whoever holds its standard input is gone, and tells a training that
came apart by a code of its own.
"""

import sys

from bertworks.cli.main import main
from bertworks.core.errors import TrainingError
from bertworks.core.processes import end_with_input

if __name__ == "__main__":
    end_with_input()
    try:
        main()
    except SystemExit as end:
        if isinstance(end.__context__, TrainingError):
            sys.exit(TrainingError.told_code)
        raise
