"""What runs studies and benchmarks: cells of work, finished ones kept, and tables of what came out."""
