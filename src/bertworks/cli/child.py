"""`python -m bertworks.cli.child` is the command for a process that shall not outlive its starter.

It ends, whatever it does, when whoever holds its standard input is gone, and tells a training that
came apart, and too little memory, by codes of their own.
"""

import sys

from bertworks.cli.main import is_of_memory, main
from bertworks.core.errors import FullMemoryError, TrainingError
from bertworks.core.processes import end_with_input

if __name__ == "__main__":
    end_with_input()
    try:
        main()
    except SystemExit as end:
        if isinstance(end.__context__, TrainingError):
            sys.exit(TrainingError.told_code)
        if end.code and is_of_memory(end.__context__):
            sys.exit(FullMemoryError.told_code)
        raise
