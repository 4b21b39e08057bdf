"""The bench's nodes for nodetool-core: what `arithmetic.py` and `docs/examples/text_tools.py` are for ours."""
