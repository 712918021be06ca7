"""A fitted model, a log or a guess -> how many votes are still needed, and which menus to ask."""
