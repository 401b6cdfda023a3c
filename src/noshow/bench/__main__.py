"""`python -m noshow.bench`: the same as `noshow bench`, where only the packages that it needs are there."""

import typer

from noshow.cli_bench import bench
from noshow.errors import NoshowError

if __name__ == "__main__":
    try:
        typer.run(bench)
    except NoshowError as error:
        raise SystemExit(f"noshow: {error}") from None
