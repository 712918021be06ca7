"""Raw logs -> Feedback."""
