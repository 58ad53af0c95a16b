/* Switches valgrind's counting of instructions on and off; without valgrind, both do nothing. */

#include <valgrind/callgrind.h>

void
start_counting(void)
{
    CALLGRIND_START_INSTRUMENTATION;
}

void
stop_counting(void)
{
    CALLGRIND_STOP_INSTRUMENTATION;
}
