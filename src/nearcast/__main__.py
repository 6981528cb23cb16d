"""``python -m nearcast``: the same program as ``nearcast``."""

from nearcast.cli import main

if __name__ == "__main__":
    main()
