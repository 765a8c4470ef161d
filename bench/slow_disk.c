/* Makes every sync of a file take 50 ms longer, as on a slow disk. bench/slow_disk loads it with LD_PRELOAD. The
 * environment variable SLOW_DISK_MS changes the time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_for_disk(void) {
    const char *text = getenv("SLOW_DISK_MS");
    long millis = text ? atol(text) : 50;
    struct timespec span = {millis / 1000, millis % 1000 * 1000000};
    nanosleep(&span, NULL);
}

#define SLOW(name)                                             \
    int name(int file) {                                       \
        static int (*real)(int);                               \
        if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, #name); \
        wait_for_disk();                                       \
        return real(file);                                     \
    }

SLOW(fsync)
SLOW(fdatasync)
