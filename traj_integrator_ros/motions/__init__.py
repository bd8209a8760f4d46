"""Reads recorded and planned motions from files of all kinds, as samples, and draws their figures.

Imports nothing else of this package.
"""
