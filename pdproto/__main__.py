"""`python -m pdproto`: the command `pdproto`, also where its program is not on the path."""

from pdproto.cli.main import entry_point

if __name__ == "__main__":
    entry_point()
