"""C99 code of the functions that links need, for devices without libm: to about 1e-15 relative."""

from __future__ import annotations

_FUNCTIONS = {
    "exp": r"""
static double treespec_exp(double v)
{
    double r, out = 1, scale;
    uint64_t bits;
    int n, k;
    if (v != v) return v;
    if (v > 709) v = 709;
    if (v < -700) v = -700;
    n = (int)(v * 1.4426950408889634 + (v < 0 ? -0.5 : 0.5));
    r = (v - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    for (k = 14; k; k--) out = 1 + r * out / k;
    bits = (uint64_t)(n + 1023) << 52;
    memcpy(&scale, &bits, sizeof scale);
    return out * scale;
}
""",
    "log": r"""
static double treespec_log(double v)
{
    double s, square, out = 0;
    uint64_t bits;
    int n, k;
    memcpy(&bits, &v, sizeof bits);
    n = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | (uint64_t)1023 << 52;
    memcpy(&v, &bits, sizeof v);
    if (v > 1.4142135623730951) {
        v /= 2;
        n++;
    }
    s = (v - 1) / (v + 1);
    square = s * s;
    for (k = 23; k > 0; k -= 2) out = out * square + 2.0 / k;
    return n * 0.6931471805599453 + s * out;
}
""",
    "log1p": r"""
static double treespec_log1p(double v)
{
    double u = 1 + v;
    return u == 1 ? v : treespec_log(u) * v / (u - 1);
}
""",
    "expm1": r"""
static double treespec_expm1(double v)
{
    double u = treespec_exp(v);
    if (u == 1) return v;
    return u - 1 == -1 ? -1 : (u - 1) * v / treespec_log(u);
}
""",
    "sqrt": r"""
static double treespec_sqrt(double v)
{
    double out;
    if (!(v > 0)) return 0;
    out = treespec_exp(treespec_log(v) / 2);
    return (out + v / out) / 2;
}
""",
    "fabs": r"""
static double treespec_fabs(double v)
{
    return v < 0 ? -v : v;
}
""",
}
_CALLS = {"log1p": ("log",), "expm1": ("exp", "log"), "sqrt": ("exp", "log")}


def without_libm(text: str) -> str:
    """Return C code with calls of libm's functions replaced, what they are replaced by in front. Arguments of logarithms are positive."""
    used = [name for name in _FUNCTIONS if f"{name}(" in text]
    for name in sorted(used, key=len, reverse=True):
        text = _rename(text, name)
    needed = {*used, *(inner for name in used for inner in _CALLS.get(name, ()))}
    return "".join(body for name, body in _FUNCTIONS.items() if name in needed) + text


def _rename(text: str, name: str) -> str:
    parts = text.split(f"{name}(")
    out = parts[0]
    for part in parts[1:]:
        own = bool(out) and (out[-1].isalnum() or out[-1] == "_")
        out += f"{name}(" + part if own else f"treespec_{name}(" + part
    return out
