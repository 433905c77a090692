"""Utilities of every layer: checks of arguments, warnings, files, content hashes, threads, devices, memory."""
