"""Files and tables of every make -> Feedback."""
