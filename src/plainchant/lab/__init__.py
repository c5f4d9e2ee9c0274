"""The laboratory: sweeps of simulations, verification, metrics, reproduction and reports, on Spark.

It may import everything but ``cli``; nothing but ``cli`` imports it. ``pyspark`` is imported inside functions or in modules
that only lab commands load, so that the product works without the ``lab`` extra.

- ``session*`` and ``java`` start Spark or find it; ``tables`` has the schemas of what sweeps write.
- Verification, bottom up: ``columns``, ``agreed``, ``certificates`` (stage 1), ``evidence``, ``order``, ``proof`` (stage 2),
  ``check`` (whole runs in a task), ``parts`` (what there is to read), ``verify`` (the job). Start with ``verify``.
- ``sweep*``: simulations as tasks; ``metrics*``; ``report/``; ``reproduce/``; ``bench_*`` and ``memory``."""
