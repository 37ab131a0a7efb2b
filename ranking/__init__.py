"""Trains and evaluates rankers on test collections. Imports no Ray."""
