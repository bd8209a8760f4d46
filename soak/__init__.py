"""The node under steady load for minutes or hours: is anything lost, does memory grow, does latency increase?"""
