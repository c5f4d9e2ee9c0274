"""The laboratory: sweeps of simulations, verification, metrics, reproduction and reports, on Spark.

It may import everything but ``cli``; nothing but ``cli`` imports it. ``pyspark`` is imported inside functions or in modules
that only lab commands load, so that the product works without the ``lab`` extra.

``session`` starts Spark or finds it; ``tables`` has the schemas of what tasks give back; ``check`` verifies whole runs
inside a task; ``verify`` does it for traces of any size. Start with ``check``, then ``verify``."""
