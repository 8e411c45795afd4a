/* An agent that appends its pid and the time of its start (CLOCK_MONOTONIC, ns) to the file BENCH_STARTS, and waits. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct timespec now;
    char line[64];
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (argc > 1 && !strcmp(argv[1], "--version")) return puts("2.1.332 (Claude Code)") < 0;
    int file = open(getenv("BENCH_STARTS"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    int length = snprintf(line, sizeof line, "%d %lld\n", (int)getpid(), now.tv_sec * 1000000000LL + now.tv_nsec);
    if (write(file, line, length) != length) return 1;
    for (;;) pause();
}
