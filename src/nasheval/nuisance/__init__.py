"""Feedback -> NuisanceFit: cross-fitted outcome regressions mu and menu propensities e."""
