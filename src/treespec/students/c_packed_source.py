"""The fixed part of the C code of packed trees: what the packed bytes mean, in the words of `packed_format`.

All bytes are one array, ``data``, with four zero bytes behind it, so that the 32 bits from any bit of it on can be loaded at once.
"""

READER = r"""
/* fetch: the bits from bit `at` on, 25 of them at least. */
static uint32_t load(uint32_t byte)
{
    const uint8_t *p = data + byte;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

#define fetch(at) (load((at) >> 3) >> ((at) & 7))

#define FIELD(at, n) (fetch(at) & ((1u << (n)) - 1u))
"""

COUNTING = r"""
#if defined(__POPCNT__) || defined(__aarch64__)
#define ones(v) ((unsigned)__builtin_popcount(v))
#else
static unsigned ones(uint32_t v)
{
    v -= v >> 1 & 0x55555555u;
    v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
    return (((v + (v >> 4)) & 0x0f0f0f0fu) * 0x01010101u) >> 24;
}
#endif

/* Number of zeros below the lowest one of v, which is not 0. */
#ifdef __GNUC__
#define zeros(v) ((unsigned)__builtin_ctz(v))
#else
#define zeros(v) ones(((v) & (0u - (v))) - 1u)
#endif

static WORD get(uint32_t at, unsigned n)
{
@WIDE@    return (WORD)FIELD(at, n);
}
"""

TABLE_READER = r"""
static WORD next(uint32_t *at, unsigned n)
{
    WORD out = get(*at, n);
    *at += n;
    return out;
}

static WORD next_gamma(uint32_t *at)
{
    unsigned length = 0;
    while (!FIELD(*at, 1)) {
        length++;
        ++*at;
    }
    ++*at;
    return (((WORD)1 << length) | next(at, length)) - 1;
}

/* Of sorted integers (the first; gaps of k low bits, all of them first; the rests of the gaps in unary) the number below a limit.
   `key` becomes the first that is not, `at` moves behind the table. */
static unsigned rank(uint32_t *at, unsigned k, unsigned count, KEY limit, KEY *found)
{
    int negative = (int)next(at, 1);
    WORD key = next_gamma(at);
    uint32_t low, one, from, bits = 0;
    unsigned n = 0, left = count - 1;
    if (k) key = (key << k) | next(at, k);
    if (negative) key = (WORD)0 - key;
    low = *at;
    from = low + left * k;
    one = from - 1;
    while ((KEY)key < limit) {
        uint32_t here;
        n++;
        if (n == count) break;
        while (!bits) {
            bits = fetch(from) & 0xffffffu;
            from += 24;
        }
        here = from - 24 + zeros(bits);
        bits &= bits - 1;
        key += 1 + ((WORD)(here - one - 1) << k | @LOW@);
        low += k;
        one = here;
        left--;
    }
    if (left) {
        unsigned some;
        while ((some = ones(bits)) < left) {
            left -= some;
            bits = fetch(from) & 0xffffffu;
            from += 24;
        }
        while (--left) bits &= bits - 1;
        one = from - 24 + zeros(bits);
    }
    *found = (KEY)key;
    *at = one + 1;
    return n;
}
"""

FILL = r"""
static void fill(uint32_t *bits, unsigned from, unsigned to)
{
    for (; from < to && from & 31; from++) bits[from >> 5] |= 1u << (from & 31);
    for (; to - from >= 32; from += 32) bits[from >> 5] = 0u - 1u;
    if (from < to) bits[from >> 5] |= (1u << (to - from)) - 1u;
}
"""

WIDE = r"""    WORD out = 0;
    unsigned got = 0;
    for (; n - got > 24; got += 24) out |= (WORD)(fetch(at + got) & 0xffffffu) << got;
    if (got) return out | (WORD)FIELD(at + got, n - got) << got;
"""

FLOATS = r"""
/* Keys are the bits of floats in order, without the `exponent` lowest. */
static KEY limit_of_bits(REAL v, unsigned exponent)
{
    BITS bits;
    KEY o;
    memcpy(&bits, &v, sizeof bits);
    o = (KEY)(bits & ((BITS)-1 >> 1));
    if (bits >> (8 * sizeof bits - 1)) o = -o;
@LIMIT@}
"""
LIMIT = (
    "    return o > 0 ? (KEY)((o - 1) >> exponent) + 1 : -(-o >> exponent);\n",
    "    return o >= 0 ? (KEY)(o >> exponent) + 1 : -((-o - 1) >> exponent);\n",
    "    o--;\n    return o > 0 ? (KEY)((o - 1) >> exponent) + 1 : -(-o >> exponent);\n",
)

NUMBERS = r"""
static REAL power(REAL base, unsigned n)
{
    REAL out = 1;
    while (n--) out *= base;
    return out;
}

static int goes_left(REAL v, KEY key, unsigned kind, REAL scale)
{
    REAL t = kind == 0 ? (REAL)key / scale : (REAL)key * scale;
    return @COMPARE@;
}

/* Keys are decimals or binary fractions: a guess, then what the comparison says. */
static KEY limit_of_number(REAL v, unsigned kind, unsigned exponent)
{
    const KEY most = (KEY)1 << MANTISSA;
    REAL scale = kind == 0 ? power(10, exponent) : exponent > 32 ? power((REAL)0.5, exponent - 32) : power(2, 32 - exponent);
    REAL guess = kind == 0 ? v * scale : v / scale;
    KEY k = guess >= (REAL)most ? most : guess <= (REAL)-most ? -most : (KEY)guess;
    while (k > -most && goes_left(v, k - 1, kind, scale)) k--;
    while (k < most && !goes_left(v, k, kind, scale)) k++;
    return k;
}
"""
COMPARE = ("v <= t", "v < t", "v <= above(t)")

ABOVE = r"""
static REAL above(REAL v)
{
    BITS bits;
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
static uint32_t ask_sets(uint32_t at, REAL v, int left, unsigned split, unsigned count, uint32_t *right)
{
    unsigned listed_left = (unsigned)next(&at, 1), dense = (unsigned)next(&at, 1), n = (unsigned)next_gamma(&at), place = n, i;
    int known = @KNOWN@;
    KEY code = known ? (KEY)v : 0, found = -1;
    if (known && dense && (WORD)code < n) place = (unsigned)code;
    if (!dense) {
        unsigned k = (unsigned)next(&at, 6), below = rank(&at, k, n, code, &found);
        if (known && found == code) place = below;
    }
    for (i = 0; i < count; i++, at += n) {
        unsigned listed = place < n && FIELD(at + place, 1);
        int goes_left = MISSING(v) ? left : listed == listed_left;
        if (!goes_left) fill(right, split + i, split + i + 1);
    }
    return at;
}
"""

ASK = r"""@SETS@
/* Sets the bit of every split at which the row goes right. */
static void ask(const INPUT *x, uint32_t *right@MISSING_ARGUMENT@)
{
    uint32_t at = TABLES_AT;
    unsigned split = 0, feature = 0, kind = 0, exponent = 0, k = 0, t;
    for (t = 0; t < N_TABLES; t++) {
        unsigned count;
        int left = DEFAULT_LEFT;
        REAL v;
        feature += (unsigned)next_gamma(&at);
@IS_SET@@BY_TABLE@        count = (unsigned)next_gamma(&at) + 1;
        v = value(x, feature);
@MISSING@@ASK_SETS@        {
            KEY limit, found;
            unsigned below;
            (void)kind;
            (void)exponent;
            if (!next(&at, 1)) {
                kind = (unsigned)next(&at, 2);
                exponent = (unsigned)next(&at, 6);
                k = (unsigned)next(&at, 6);
            }
            if (MISSING(v)) limit = 0;
            else @LIMIT@
            below = rank(&at, k, count, limit, &found);
            if (MISSING(v)) below = left ? 0 : count;
            fill(right, split, split + below);
        }
        split += count;
    }
}
"""

WALK = r"""
#if SHAPE_BITS % 8 /* then the bit behind the shape is 0 */
#define IN_SHAPE(at) 1u
#else
#define IN_SHAPE(at) ((at) < SHAPE_BITS)
#endif

/* Nodes are breadth first over all trees, and so all trees walk down together, one level at a time; `node` becomes the leaf of each. */
static void walk(const uint32_t *right@MISSING_ARGUMENT@, NODE *node)
{
    NODE before[SHAPE_BITS / 32 + 1], walking[N_TREES];
    unsigned t, i, n = N_TREES, total = 0;
    for (i = 0; i <= SHAPE_BITS / 32; i++) {
        before[i] = (NODE)total;
        total += ones(load(SHAPE_AT / 8 + 4 * i));
    }
    for (t = 0; t < N_TREES; t++) node[t] = walking[t] = (NODE)t;
    while (n) {
        unsigned still = 0;
        for (i = 0; i < n; i++) {
            uint32_t here, at, word, inner, is_inner, split, side, leaf;
            t = walking[i];
            here = node[t];
            at = here < SHAPE_BITS ? here : SHAPE_BITS;
            word = load(SHAPE_AT / 8 + (at >> 5) * 4) << (31 - (at & 31));
            is_inner = word >> 31 & IN_SHAPE(here);
            inner = before[at >> 5] + ones(word) - (word >> 31);
            split = FIELD(SPLITS_AT + inner * SPLIT_BITS, SPLIT_BITS) & (0u - is_inner);
            side = right[split >> 5] >> (split & 31) & 1u;
@BY_NODE@            leaf = here - inner;
            node[t] = (NODE)(leaf + ((N_TREES + 2 * inner + side - leaf) & (0u - is_inner))); /* without a branch */
            walking[still] = (NODE)t;
            still += is_inner;
        }
        n = still;
    }
}
"""

FAST_WALK = r"""
/* The same with a table of steps: leaf (split N_SPLITS) or the left child of each node, and its split. */
static void walk(const uint32_t *right@MISSING_ARGUMENT@, NODE *node)
{
    NODE walking[N_TREES];
    unsigned t, i, n = N_TREES;
    (void)load;
    for (t = 0; t < N_TREES; t++) node[t] = walking[t] = (NODE)t;
    while (n) {
        unsigned still = 0;
        for (i = 0; i < n; i++) {
            uint32_t here, split, side;
            t = walking[i];
            here = node[t];
            split = split_of[here];
            side = right[split >> 5] >> (split & 31) & 1u;
@BY_NODE@            node[t] = (NODE)(next_of[here] + side);
            walking[still] = (NODE)t;
            still += split != N_SPLITS;
        }
        n = still;
    }
}
"""

FAST_ASK = r"""
/* Sets the bit of every split at which the row goes right. */
static void ask(const INPUT *x, uint32_t *right@MISSING_ARGUMENT@)
{
    unsigned t, split = 0;
    for (t = 0; t < N_TABLES; t++) {
        unsigned end = end_of[t], n = end - split, below = split;
        REAL v = value(x, feature_of[t]);
        if (MISSING(v)) {
@MISSING@            if (!@LEFT@) fill(right, split, end);
        } else {
            while (n > 1) {
                unsigned half = n / 2;
                below += threshold[below + half - 1] < v ? half : 0;
                n -= half;
            }
            fill(right, split, below + (threshold[below] < v));
        }
        split = end;
    }
}
"""
