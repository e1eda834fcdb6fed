"""KPP, the kernel of partition paths: a forest as a node-indexed, path-isometric feature map, and what follows from it.

Source: "Kernel of Partition Paths: A Unified Representation for Tree Ensembles"; equation numbers in this package are its own.
"""
