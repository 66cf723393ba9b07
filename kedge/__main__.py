"""``python -m kedge``: the command where it is not installed as a script."""

from kedge.cli import main

if __name__ == "__main__":
    main()
