"""Tensors as the operator cases need them: exact copies, comparisons, descriptions."""
import torch
from torch import nn
from torch.utils._pytree import tree_flatten

from archives import Skip


def dtype_name(dtype):
    return str(dtype).replace("torch.", "")


def exact_copy(t):
    """A detached copy with the same values, shape and strides, in a storage of
    its own."""
    t = t.detach()
    if type(t) not in (torch.Tensor, nn.Parameter):
        raise Skip(f"tensor subclass {type(t).__name__}")
    if t.layout != torch.strided or t.is_nested or t.is_quantized:
        raise Skip(f"layout {str(t.layout).replace('torch.', '')}, nested or quantized")
    if t._is_zerotensor():                  # autograd's zeros, without a storage
        return torch.zeros(t.shape, dtype=t.dtype)
    t = t.resolve_conj().resolve_neg()
    if t.numel() == 0:
        return torch.empty_strided(t.size(), t.stride(), dtype=t.dtype)
    span = 1 + sum((n - 1) * s for n, s in zip(t.size(), t.stride()))
    if t.untyped_storage().nbytes() <= 4 * span * t.element_size():
        # All of the storage: as_strided may read outside of the tensor, and the
        # gaps of a non-contiguous sample hold NaN, so that reading them shows.
        whole = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
        return whole.clone().as_strided(t.size(), t.stride(), t.storage_offset())
    flat = t.as_strided((span,), (1,), t.storage_offset()).clone()
    return flat.as_strided(t.size(), t.stride())


def reference_dtype(dtype):
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else None


def tensors_of(out):
    """The tensors of an operator's result, in order."""
    if isinstance(out, torch.Tensor):
        return [out]
    leaves = tree_flatten(out)[0]
    found = [x for x in leaves if isinstance(x, torch.Tensor)]
    if not found:
        raise Skip("no tensor in the output")
    return found


def same(a, b, rtol=0.0, atol=0.0):
    """Lists of tensors agree in dtype, shape and (NaN equal to NaN) value."""
    if len(a) != len(b):
        return False
    for x, y in zip(a, b):
        if x.dtype != y.dtype or x.shape != y.shape:
            return False
        try:
            torch.testing.assert_close(x, y, rtol=rtol, atol=atol, equal_nan=True,
                                       check_stride=False)
        except AssertionError:
            return False
    return True


def describe(t):
    return {"shape": list(t.shape), "stride": list(t.stride()), "dtype": dtype_name(t.dtype)}
