/* Keeps a program alive: a pidfd tells its end, and it is started again at once: keep PROGRAM */
#define _GNU_SOURCE
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
    for (pid_t pid; argc > 1 && !posix_spawn(&pid, argv[1], 0, 0, argv + 1, environ);) {
        struct pollfd end = {syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
        poll(&end, 1, -1);
        close(end.fd);
        waitpid(pid, 0, 0);
    }
    return 1;
}
