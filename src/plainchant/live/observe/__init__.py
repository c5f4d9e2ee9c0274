"""What a node tells those who look after it: figures for Prometheus, spans for OpenTelemetry.

``observer`` has what the host and its groups say and counts what nobody else counts; ``sampling`` chooses the messages whose
time is taken; ``metrics`` is the list of all figures and reads them when somebody asks; ``endpoint`` answers over HTTP, on the
node's own event loop; ``spans`` tells of what happens. A node that nobody looks after imports none of this. May import what
``live`` may, and, late, the packages of the extra ``observe``. Start with ``observer``.
"""
