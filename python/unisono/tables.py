"""Tables of pandas, Arrow and Parquet as CSV files, which the program reads."""

import os
import pathlib
from typing import Any

Path = str | os.PathLike[str]


def csv_of(table: Any, folder: Path) -> Path:
    """A file for the program: the table itself where it is a path, but a CSV file in `folder` for a data frame, an Arrow
    table and the path of a Parquet file."""
    if isinstance(table, (str, os.PathLike)):
        if not os.fspath(table).endswith((".parquet", ".pq")):
            return table
        import pandas as pd

        table = pd.read_parquet(table)
    elif hasattr(table, "to_pandas"):
        table = table.to_pandas()
    elif not hasattr(table, "to_csv"):
        raise TypeError(f"a table is a data frame, an Arrow table or a path, not {type(table).__name__}")
    path = pathlib.Path(folder) / "table.csv"
    table.to_csv(path, index=False)
    return path
