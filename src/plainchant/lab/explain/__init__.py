"""Explanations: the life of a message, the story of a view, what became of a process, from the rows of a trace.

May import ``core``, ``protocols`` (for their stories) and ``trace``. Start with ``explainer``.
"""
