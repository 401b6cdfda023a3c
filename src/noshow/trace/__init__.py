"""Traces: who was called and who answered, in a file that a live federation records and the simulator replays.

A trace is a Parquet file with one row for each client sampled in each round:

| column | type               | what it says                                                              |
|--------|--------------------|---------------------------------------------------------------------------|
| round  | int32              | the round; rows are in the order of rounds, which may start at any number |
| client | string             | the client's name, once a round at most                                   |
| status | string             | `"answered"` or `"silent"`                                                |
| reason | string             | why it was silent; `""` when it answered                                  |
| n      | int64              | n_i, the client's examples                                                |
| time   | timestamp[us, UTC] | when that was known                                                       |

The file's metadata hold `sampled`, the K of the federation, and may hold `registered`, a JSON list of the names of all
clients, for the sake of those who were never called.
"""

from noshow.trace.csv_file import from_csv
from noshow.trace.file import Entry, Trace, read, write
from noshow.trace.picture import picture
from noshow.trace.simulated import of_history
from noshow.trace.summary import summarise

__all__ = ["Entry", "Trace", "from_csv", "of_history", "picture", "read", "summarise", "write"]
