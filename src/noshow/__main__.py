"""`python -m noshow`: the command, where its script is not on the path."""

from noshow.cli import main

if __name__ == "__main__":
    main()
