"""A fitted model -> what its winners hang on: votes, voters, judges and what was not measured."""
