"""The name under which NodeTool starts a worker; the worker itself is `nodetool_worker`.

`nodetool` has no `__init__.py`: other distributions put packages of their own beside this one (FND-18).
"""
