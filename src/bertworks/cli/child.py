"""`python -m bertworks.cli.child` is the command for a process that shall not outlive its starter.

It ends, whatever it does, when whoever holds its standard input is gone.
"""

from bertworks.cli.main import main
from bertworks.core.processes import end_with_input

if __name__ == "__main__":
    end_with_input()
    main()
