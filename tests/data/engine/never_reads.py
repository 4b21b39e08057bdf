"""Never reads a byte of its stdin, and never answers."""

import signal

signal.pause()
