/* Preloaded into the node: its clock of the day is off by what a file says (ns), which RIG_CLOCK names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile int64_t *by;
static int (*real)(clockid_t, struct timespec *);
__attribute__((constructor)) static void begin(void) {
  real = dlsym(RTLD_NEXT, "clock_gettime");
  const char *path = getenv("RIG_CLOCK");
  int fd = path ? open(path, O_RDONLY) : -1;
  if (fd >= 0) { void *at = mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0); if (at != MAP_FAILED) by = at; close(fd); }
}
int clock_gettime(clockid_t which, struct timespec *t) {
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int rc = real(which, t);
  if (!rc && by && which == CLOCK_REALTIME) {
    int64_t ns = t->tv_sec * 1000000000LL + t->tv_nsec + *by;
    t->tv_sec = ns / 1000000000LL; t->tv_nsec = ns % 1000000000LL;
  }
  return rc;
}
int gettimeofday(struct timeval *restrict t, void *restrict z) {
  struct timespec s; int rc = clock_gettime(CLOCK_REALTIME, &s); (void)z;
  t->tv_sec = s.tv_sec; t->tv_usec = s.tv_nsec / 1000; return rc;
}
