"""treespec: look inside any fitted tree ensemble, and distil it into a byte budget."""
