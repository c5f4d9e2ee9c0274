"""Views: view-order, view-atomicity, view-exclusion, convergence, sender-in-view, same-view, disjoint-views."""
