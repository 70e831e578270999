"""A SparkContext in this process with the methods that reconciliations, and builds of immediate
views, use. It is fast, and tests can patch the code that runs in it. Options of JVMs with Spark."""

from __future__ import annotations

import pickle
from functools import reduce

from hornbeam_server.cluster.configuration import QUICK_COMPILER

QUICK_JAVA = f"{QUICK_COMPILER} -XX:+UseSerialGC"
"""Options of Spark's JVM. It lives so briefly that the second compiler costs more than it saves:
with these options the JVM takes 33 s of processor time instead of 58 for some forty small jobs."""


class Here:
    """Items of `parallelize` and results of `treeReduce` are pickled and unpickled once."""

    defaultParallelism = 2

    def setJobGroup(self, *_):
        pass

    def statusTracker(self):
        return self

    def getJobIdsForGroup(self, _):
        return []

    def cancelJobGroup(self, _):
        pass

    def accumulator(self, value):
        return Count(value)

    def parallelize(self, items, _parts):
        return Items([pickle.loads(pickle.dumps(item)) for item in items])


class Count:
    def __init__(self, value):
        self.value = value

    def add(self, more):
        self.value += more


class Items:
    def __init__(self, items):
        self._items = items

    def map(self, function):
        return Items([function(item) for item in self._items])

    def flatMap(self, function):
        return Items([made for item in self._items for made in function(item)])

    def groupByKey(self, _parts):
        groups = {}
        for key, value in self._items:
            groups.setdefault(key, []).append(value)
        return Items(list(groups.items()))

    def reduceByKey(self, function, _parts, partition):
        found = {}
        for key, value in self._items:
            assert partition(key) == partition(pickle.loads(pickle.dumps(key)))
            found[key] = function(found[key], value) if key in found else value
        return Items(list(found.items()))

    def filter(self, wanted):
        return Items(list(filter(wanted, self._items)))

    def mapPartitions(self, function):
        return Items(list(function(iter(self._items))))

    def treeReduce(self, function):
        return pickle.loads(pickle.dumps(reduce(function, self._items)))

    def collect(self):
        return self._items
