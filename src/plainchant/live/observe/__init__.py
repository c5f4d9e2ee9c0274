"""What a node tells its operators: figures for Prometheus, spans for OpenTelemetry.

``observer`` gets what the host and its groups tell; ``sampling`` chooses the messages whose time is taken; ``metrics`` lists all
figures and reads them; ``endpoint`` answers over HTTP; ``spans`` tells of what happens. A node without an observer imports none
of this; the packages of the extra ``observe`` are imported late. Start with ``observer``.
"""
