"""Region and boundary metrics."""
