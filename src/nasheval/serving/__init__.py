"""A fitted model as a service: decide, collect votes durably, learn again. The extra `serve` installs what it takes.

`app.py` puts it together; `nasheval serve model/` runs it. It knows the estimator and the store, never a solver.
"""
