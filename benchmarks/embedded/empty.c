/* The start-up alone, to tell what a student adds to it. */
int run(void)
{
    return 0;
}
