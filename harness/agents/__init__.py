"""Agents that take the steps of an episode themselves: a function, a command or an endpoint, with
the world and a model at their disposal."""
