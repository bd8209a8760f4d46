"""Recorded and planned motions in files of all kinds, as samples; and the figures that draw them.

Imports nothing else of this package.
"""
