"""The directives against use, under the name that the extraction knows them by."""

from pipeline.optout import AGENT, DIRECTIVES, directives

__all__ = ["AGENT", "DIRECTIVES", "directives"]
