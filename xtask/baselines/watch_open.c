/* Opens every FIFO that is made in a directory, as soon as inotify tells: watch_open DIRECTORY */
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char bytes[4096] __attribute__((aligned(8)));
    int watch = inotify_init1(IN_CLOEXEC);
    if (argc < 2 || chdir(argv[1]) || inotify_add_watch(watch, ".", IN_CREATE) < 0) return 1;
    puts("ready");
    fflush(stdout);
    for (ssize_t size; (size = read(watch, bytes, sizeof bytes)) > 0;)
        for (char *at = bytes; at < bytes + size;) {
            struct inotify_event *event = (struct inotify_event *)at;
            open(event->name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
            at += sizeof *event + event->len;
        }
    return 0;
}
