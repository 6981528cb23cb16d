"""Processor intrinsics for kernels: `prefetch` and `copy_16`.

`prefetch` requests a cache line that will be read soon; `copy_16` copies sixteen bytes at once.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


def _prefetch(typing_context: Any, array: Any, row: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        of = signature.args[0]
        view = context.make_array(of)(context, builder, args[0])
        stride = cgutils.unpack_tuple(builder, view.strides, of.ndim)[0]
        byte = ir.IntType(8).as_pointer()
        at = builder.gep(builder.bitcast(view.data, byte), [builder.mul(args[1], stride)])
        word = ir.IntType(32)
        form = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        call = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0")
        builder.call(call, [at, *(ir.Constant(word, n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


prefetch: Callable[[object, int], None] = intrinsic(_prefetch)
"""Prefetch the cache line where a row of an array begins; harmless for an invalid row."""


def _copy_16(typing_context: Any, to: Any, at: Any, data: Any, start: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        many = ir.VectorType(ir.IntType(8), 16).as_pointer()

        def place(array: int, offset: int) -> Any:  # noqa: ANN401
            view = context.make_array(signature.args[array])(context, builder, args[array])
            return builder.bitcast(builder.gep(view.data, [args[offset]]), many)

        builder.store(builder.load(place(2, 3), align=1), place(0, 1), align=1)
        return context.get_dummy_value()

    return types.void(to, types.intp, data, types.intp), generate


copy_16: Callable[[object, int, object, int], None] = intrinsic(_copy_16)
"""Copy sixteen bytes between byte arrays; both must have that many at the given offsets."""
