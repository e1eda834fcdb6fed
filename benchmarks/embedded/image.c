/* The start-up and one call of the student: what a firmware holds. */
#include "treespec.h"

static volatile INPUT x[TREESPEC_N_FEATURES];
static volatile OUTPUT out[TREESPEC_N_OUTPUTS];

int run(void)
{
    TREESPEC_FUNCTION((const INPUT *)x, (OUTPUT *)out);
    return out[0] > 0;
}
