"""A small builder of ONNX graphs, in which every step is a name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import MissingDependencyError

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8


class Graph:
    """Nodes and constants; ``graph("Add", a, b)`` adds a node and returns the name of its output.

    Arguments that are arrays or numbers become constants; numbers take the type ``dtype``.

    Parameters
    ----------
    dtype : {"float32", "float64"}
        Of the input, and of numbers that are written as such.

    Raises
    ------
    MissingDependencyError
        If onnx is not installed.
    """

    input = "x"

    def __init__(self, dtype: str) -> None:
        try:
            import onnx
        except ImportError as error:
            raise MissingDependencyError.of("onnx", "onnx", "to_onnx") from error
        self._onnx = onnx
        self.dtype = dtype
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def __call__(self, op: str, *inputs: str | float | NDArray[Any], **attributes: Any) -> str:
        """Add a node of one output."""
        name = f"{op}_{len(self._nodes)}"
        domain = "ai.onnx.ml" if op.startswith("TreeEnsemble") else ""
        names = [i if isinstance(i, str) else self.constant(i) for i in inputs]
        self._nodes.append(self._onnx.helper.make_node(op, names, [name], name=name, domain=domain, **attributes))
        return name

    def constant(self, value: Any) -> str:
        """Add a constant; Python numbers become scalars of the graph's type."""
        array = np.asarray(value, None if isinstance(value, np.ndarray) else self.dtype)
        name = f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def tensor(self, value: NDArray[Any]) -> Any:
        """Return an array as an attribute."""
        return self._onnx.numpy_helper.from_array(value, "values")

    def cast(self, value: str, dtype: str) -> str:
        """Add a cast."""
        return self("Cast", value, to=self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def column(self, value: str, j: int | NDArray[np.int64]) -> str:
        """Return columns (n, k) of a matrix (n, m)."""
        return self("Gather", value, np.atleast_1d(np.asarray(j, np.int64)), axis=1)

    def save(self, path: str | Path, n_features: int, outputs: dict[str, tuple[str, str, int | None]], about: dict[str, str]) -> None:
        """Check the graph and write it.

        Parameters
        ----------
        outputs : dict of str to (str, str, int or None)
            Name to the value it stands for, its type ("float32", "int64", "str") and number of columns (None: one value a row).
        about : dict of str to str
            Metadata of the file.
        """
        helper, types = self._onnx.helper, self._onnx.TensorProto
        kinds = {"float32": types.FLOAT, "float64": types.DOUBLE, "int64": types.INT64, "str": types.STRING}
        infos = []
        for name, (value, dtype, width) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [value], [name]))
            infos.append(helper.make_tensor_value_info(name, kinds[dtype], ["n"] if width is None else ["n", width]))
        x = helper.make_tensor_value_info(self.input, kinds[self.dtype], ["n", n_features])
        graph = helper.make_graph(self._nodes, "treespec", [x], infos, initializer=self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="treespec", ir_version=IR_VERSION)
        helper.set_model_props(model, about)
        self._onnx.checker.check_model(model)
        Path(path).write_bytes(model.SerializeToString())
