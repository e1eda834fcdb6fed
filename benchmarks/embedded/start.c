/* Start-up of a Cortex-M device under QEMU: vectors, memory, the console and the exit by semihosting, and a counter of instructions.

   QEMU runs with `-icount shift=0`: an instruction takes a nanosecond of its clock. SysTick counts the 25 MHz of the board by that clock, so that
   a tick is 40 instructions. */
#include <stdint.h>

#define SYSTICK ((volatile uint32_t *)0xe000e010u)
#define CPACR (*(volatile uint32_t *)0xe000ed88u)
#define PAINT 0xa5a5a5a5u

extern uint32_t data_start, data_end, data_image, bss_start, bss_end, stack_top;
int run(void);

static int semihost(int operation, const void *argument)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void say(const char *text)
{
    semihost(4, text);
}

void say_number(const char *name, uint32_t value)
{
    char text[12];
    int i = 11;
    text[i] = 0;
    do text[--i] = (char)('0' + value % 10); while (value /= 10);
    say(name);
    say(" ");
    say(text + i);
    say("\n");
}

uint32_t ticks(void)
{
    return 0xffffffu - SYSTICK[2];
}

/* Paints the stack below the caller; later, the bytes that were used since. */
void paint_stack(void)
{
    uint32_t *p = &bss_end, *here = (uint32_t *)__builtin_frame_address(0) - 16;
    while (p < here) *p++ = PAINT;
}

uint32_t stack_used(void)
{
    uint32_t *p = &bss_end, *here = (uint32_t *)__builtin_frame_address(0);
    while (p < here && *p == PAINT) p++;
    return (uint32_t)((char *)here - (char *)p);
}

int _write(int file, const char *text, int n)
{
    char piece[2] = {0, 0};
    int i;
    (void)file;
    for (i = 0; i < n; i++) {
        piece[0] = text[i];
        say(piece);
    }
    return n;
}

void reset(void)
{
    uint32_t *from = &data_image, *to, status[2];
#ifdef __ARM_FP
    CPACR |= 0xfu << 20;
    __asm__ volatile("dsb\n\tisb");
#endif
    for (to = &data_start; to < &data_end;) *to++ = *from++;
    for (to = &bss_start; to < &bss_end;) *to++ = 0;
    SYSTICK[1] = 0xffffffu;
    SYSTICK[2] = 0;
    SYSTICK[0] = 5; /* on, by the clock of the processor */
    status[0] = 0x20026u;
    status[1] = (uint32_t)run();
    semihost(0x20, status);
    for (;;) {}
}

static void fault(void)
{
    static const uint32_t status[2] = {0x20026u, 99};
    say("fault\n");
    semihost(0x20, status);
    for (;;) {}
}

__attribute__((section(".vectors"), used)) void (*const vectors[16])(void) = {
    (void (*)(void))&stack_top, reset, fault, fault, fault, fault, fault,
};
