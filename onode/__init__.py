"""`onode`: the command with which people describe, call, measure and watch workflow nodes, without a host installed."""
