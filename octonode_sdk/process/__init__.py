"""A runner as a process, whatever its wire: its streams, its signals, its children, its end."""
