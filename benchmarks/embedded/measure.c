/* Runs the generated self-test, then measures predictions of its rows. */
#define main self_test
#include "treespec_test.c"
#undef main

void say(const char *text);
void say_number(const char *name, uint32_t value);
uint32_t ticks(void);
void paint_stack(void);
uint32_t stack_used(void);

#define N_ROWS (sizeof rows / sizeof rows[0] / TREESPEC_N_FEATURES)
#define REPEATS 5

int run(void)
{
    static OUTPUT out[TREESPEC_N_OUTPUTS];
    uint32_t begin, end;
    unsigned i, r;
    int status = self_test();
    paint_stack();
    for (i = 0; i < N_ROWS; i++) TREESPEC_FUNCTION(rows + i * TREESPEC_N_FEATURES, out);
    say_number("stack", stack_used());
    begin = ticks();
    for (r = 0; r < REPEATS; r++)
        for (i = 0; i < N_ROWS; i++) TREESPEC_FUNCTION(rows + i * TREESPEC_N_FEATURES, out);
    end = ticks();
    say_number("instructions", (end - begin) * 40u / (REPEATS * N_ROWS));
    return status;
}
