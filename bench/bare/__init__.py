"""The barest runner that one could write: the peer of the one-shot measure in `run.py`."""
