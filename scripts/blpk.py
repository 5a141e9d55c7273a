"""Bloscpack's own command line, as `blpk` would be: bloscpack 0.16 wants MutableMapping where it was in Python 3.9.

    blpk.py ARGUMENT ...
"""
import collections
import collections.abc
import sys

collections.MutableMapping = collections.abc.MutableMapping

from bloscpack.cli import main

sys.argv[0] = "blpk"
main()
