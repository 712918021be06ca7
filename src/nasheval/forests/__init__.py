"""Trees read out of fitted models into flat arrays, and walked by compiled code."""
