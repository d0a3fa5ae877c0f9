"""Policies to compare with: static, threshold, DS2 and DRS."""
