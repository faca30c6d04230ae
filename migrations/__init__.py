"""The database's history, one file per step; shipped with the package and run at start."""
