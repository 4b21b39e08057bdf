"""The programs in this folder are started by tests and never imported: a search for doctests passes them over."""

collect_ignore_glob = ["*.py"]
