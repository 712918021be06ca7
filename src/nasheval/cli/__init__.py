"""The command line: parse, call, print."""

from nasheval.cli.program import app as app
from nasheval.cli.program import main as main
