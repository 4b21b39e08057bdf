"""Ends before it has read a byte of its stdin."""

import sys

sys.stderr.write("not in the mood\n")
