"""The suites that need torch alone."""
