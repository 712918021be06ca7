"""NuisanceFit -> PayoffModel: the debiased payoff matrix A(x), and intervals for its means."""
