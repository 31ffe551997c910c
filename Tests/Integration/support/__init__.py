"""Gateways, clients and services for the tests: all modules that are no test."""
