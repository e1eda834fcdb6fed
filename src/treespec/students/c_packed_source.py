"""The fixed part of the C code of packed trees: what the packed bytes mean, in the words of `packed_format`."""

READER = r"""
static WORD get(const uint8_t *p, uint32_t at, unsigned n)
{
    WORD out = 0;
    unsigned got = 0;
    p += at >> 3;
    at &= 7;
    while (got < n) {
        unsigned take = 8 - at;
        if (take > n - got) take = n - got;
        out |= (WORD)((unsigned)(*p++ >> at) & ((1u << take) - 1)) << got;
        got += take;
        at = 0;
    }
    return out;
}
"""

TABLE_READER = r"""
static WORD next(uint32_t *at, unsigned n)
{
    WORD out = get(tables, *at, n);
    *at += n;
    return out;
}

static WORD next_gamma(uint32_t *at)
{
    unsigned length = 0;
    while (!next(at, 1)) length++;
    return (((WORD)1 << length) | next(at, length)) - 1;
}

/* Sorted integers: the first, then gaps of k low bits (all low bits come first) and a rest in unary. */
typedef struct {
    uint32_t low, unary;
    unsigned k;
    WORD key;
} Keys;

static Keys first_key(uint32_t *at, unsigned k, unsigned count)
{
    Keys s;
    WORD negative = next(at, 1);
    s.key = next_gamma(at);
    s.key = (k ? s.key << k : s.key) | next(at, k);
    if (negative) s.key = (WORD)0 - s.key;
    s.k = k;
    s.low = *at;
    s.unary = *at + (count - 1) * k;
    return s;
}

static void next_key(Keys *s)
{
    WORD rest = 0;
    while (!next(&s->unary, 1)) rest++;
    s->key += 1 + ((rest << s->k) | next(&s->low, s->k));
}
"""

NUMBERS = r"""
static REAL power(REAL base, unsigned n)
{
    REAL out = 1;
    while (n--) out *= base;
    return out;
}

static REAL number(WORD key, unsigned kind, unsigned exponent, REAL scale)
{
    KEY k = (KEY)key;
    REAL out;
    if (kind == 0) return (REAL)k / scale;
    if (kind == 1) return (REAL)k * scale;
    key = k < 0 ? (WORD)0 - key : key;
    key <<= exponent;
    memcpy(&out, &key, sizeof out);
    return k < 0 ? -out : out;
}

static REAL scale_of(unsigned kind, unsigned exponent)
{
    if (kind == 0) return power(10, exponent);
    return exponent > 32 ? power((REAL)0.5, exponent - 32) : power(2, 32 - exponent);
}
"""

ABOVE = r"""
static REAL above(REAL v)
{
    WORD bits;
    if (v == 0) bits = 1;
    else {
        memcpy(&bits, &v, sizeof bits);
        bits = v > 0 ? bits + 1 : bits - 1;
    }
    memcpy(&v, &bits, sizeof v);
    return v;
}
"""

SETS = r"""
static uint32_t ask_sets(uint32_t at, REAL v, int left, unsigned split, unsigned count, uint8_t *right)
{
    unsigned listed_left = (unsigned)next(&at, 1), dense = (unsigned)next(&at, 1), n = (unsigned)next_gamma(&at), place = n, i;
    int known = v >= 0 && v < (REAL)2147483648.0;
    WORD code = known ? (WORD)v : 0;
    if (known && dense && code < n) place = (unsigned)code;
    if (!dense) {
        unsigned k = (unsigned)next(&at, 6);
        Keys s = first_key(&at, k, n);
        for (i = 0; i < n; i++) {
            if (i) next_key(&s);
            if (known && s.key == code) place = i;
        }
        at = s.unary;
    }
    for (i = 0; i < count; i++, at += n) {
        unsigned listed = place < n && get(tables, at + place, 1);
        int goes_left = v != v ? left : listed == listed_left;
        if (!goes_left) set(right, split + i);
    }
    return at;
}
"""

ASK = r"""
static void set(uint8_t *bits, unsigned i)
{
    bits[i >> 3] = (uint8_t)(bits[i >> 3] | 1u << (i & 7));
}
@SETS@
/* Sets the bit of every split at which the row goes right. */
static void ask(const float *x, uint8_t *right@MISSING_ARGUMENT@)
{
    uint32_t at = TABLES_AT;
    unsigned split = 0, feature = 0, kind = 0, exponent = 0, k = 0, t;
    for (t = 0; t < N_TABLES; t++) {
        unsigned count, i;
        int left = DEFAULT_LEFT;
        REAL v;
        feature += (unsigned)next_gamma(&at);
@IS_SET@@BY_TABLE@        count = (unsigned)next_gamma(&at) + 1;
        v = value(x, feature);
@MISSING@@ASK_SETS@        {
            Keys s;
            REAL scale;
            if (!next(&at, 1)) {
                kind = (unsigned)next(&at, 2);
                exponent = (unsigned)next(&at, 6);
                k = (unsigned)next(&at, 6);
            }
            scale = kind == 2 ? 0 : scale_of(kind, exponent);
            s = first_key(&at, k, count);
            for (i = 0; i < count; i++) {
                int goes_left;
                if (i) next_key(&s);
                if (v != v) goes_left = left;
                else goes_left = @COMPARE@;
                if (!goes_left) set(right, split + i);
            }
            at = s.unary;
        }
        split += count;
    }
}
"""

WALK = r"""
static uint32_t ones(uint32_t from, uint32_t to)
{
    uint32_t out = 0;
    if (to > SHAPE_BITS) to = SHAPE_BITS;
    while (from < to) {
        unsigned n = 8 - (from & 7);
        unsigned b = (unsigned)shape[from >> 3] >> (from & 7);
        if (n > to - from) {
            n = to - from;
            b &= (1u << n) - 1;
        }
        from += n;
        b -= (b >> 1) & 0x55;
        b = (b & 0x33) + ((b >> 2) & 0x33);
        out += (b + (b >> 4)) & 0x0f;
    }
    return out;
}

/* Nodes are breadth first over all trees, and so all trees walk down together: the shape is counted through once. */
static void walk(const uint8_t *right@MISSING_ARGUMENT@, NODE *node)
{
    uint32_t at = 0, inner = 0;
    unsigned t, walking = N_TREES;
    for (t = 0; t < N_TREES; t++) node[t] = (NODE)t;
    while (walking) {
        walking = 0;
        for (t = 0; t < N_TREES; t++) {
            uint32_t here = node[t];
            if (here & LEAF) continue;
            if (here > at) {
                inner += ones(at, here);
                at = here;
            }
            if (here < SHAPE_BITS && get(shape, here, 1)) {
                uint32_t split = (uint32_t)get(splits, inner * SPLIT_BITS, SPLIT_BITS);
                uint32_t side = right[split >> 3] >> (split & 7) & 1u;
@BY_NODE@                node[t] = (NODE)(N_TREES + 2 * inner + side);
                walking++;
            } else {
                node[t] = (NODE)((here - inner) | LEAF);
            }
        }
    }
}
"""
