/* System calls that fail when they are told to, below Python and below SQLite.
 *
 * Loaded before libc (LD_PRELOAD). Only calls on files below one folder count, of all threads; the
 * n-th of them fails, or does less than it could, or is the last thing that the process does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FAILS, SHORT, LASTING, KILLED };
/* What a call is: one that needs room on the disk, that may do less, that a signal may interrupt. */
enum { ROOM = 1, PART = 2, OTHER = 4, WAITS = 8 };

static char root[4096];
static size_t root_length;
static int way, number, kinds;
static long fail_at;
static atomic_long count;
static atomic_int armed, fired;
static char failed[32];

/* The calls of these kinds (bits) below `folder` count from now on, the one at `at` fails. */
void faults_start(const char *folder, long at, int how, int errno_, int counted) {
    snprintf(root, sizeof root, "%s", folder);
    root_length = strlen(root);
    fail_at = at;
    way = how;
    number = errno_;
    kinds = counted;
    failed[0] = 0;
    count = 0;
    fired = 0;
    armed = 1;
}

/* No call fails any more; how many counted. */
long faults_stop(void) {
    armed = 0;
    return count;
}

/* The call that failed, empty if none did. */
const char *faults_failed(void) { return failed; }

static int is_below(const char *path) {
    return strncmp(path, root, root_length) == 0 &&
           (path[root_length] == '/' || path[root_length] == 0);
}

static int fd_below(int fd) {
    char link[64], target[4096];
    if (!armed) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0) return 0;
    target[length] = 0;
    return is_below(target);
}

static int path_below(int fd, const char *path) {
    if (!armed || !path) return 0;
    return path[0] == '/' ? is_below(path) : fd != AT_FDCWD && fd_below(fd);
}

/* Whether this call fails (1), does less (2), or is made as it is (0). */
static int due(int below, int kind, const char *name) {
    if (!below || !armed || !(kind & kinds)) return 0;
    long at = ++count;
    if (at != fail_at && !(way == LASTING && fired)) return 0;
    if (!fired) snprintf(failed, sizeof failed, "%s", name);
    fired = 1;
    if (way == KILLED) kill(getpid(), SIGKILL);
    if (way == SHORT) return 2;
    errno = number;
    return 1;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name);

/* A call that returns -1 where it fails. */
#define CALL(type, name, parameters, arguments, below, kind) \
    type name parameters { \
        REAL(name) \
        return due(below, kind, #name) == 1 ? -1 : real arguments; \
    }

/* A call with a count of bytes, which may be halved. */
#define PARTLY(name, parameters, arguments, fd, size, kind) \
    ssize_t name parameters { \
        REAL(name) \
        int what = due(fd_below(fd), kind, #name); \
        if (what == 1) return -1; \
        if (what == 2) size = size / 2 ? size / 2 : size; \
        return real arguments; \
    }

#define OPEN(name, parameters, arguments, below) \
    int name parameters { \
        REAL(name) \
        mode_t mode = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list more; \
            va_start(more, flags); \
            mode = va_arg(more, mode_t); \
            va_end(more); \
        } \
        int kind = WAITS | (flags & (O_CREAT | __O_TMPFILE) ? ROOM : 0); \
        return due(below, kind, #name) == 1 ? -1 : real arguments; \
    }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode), path_below(AT_FDCWD, path))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode), path_below(AT_FDCWD, path))
OPEN(openat, (int fd, const char *path, int flags, ...), (fd, path, flags, mode), path_below(fd, path))
OPEN(openat64, (int fd, const char *path, int flags, ...), (fd, path, flags, mode), path_below(fd, path))

PARTLY(write, (int fd, const void *from, size_t size), (fd, from, size), fd, size, ROOM | PART | WAITS)
PARTLY(pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at), fd, size, ROOM | PART | WAITS)
PARTLY(pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at), fd, size, ROOM | PART | WAITS)
PARTLY(writev, (int fd, const struct iovec *parts, int size), (fd, parts, size), fd, size, ROOM | PART | WAITS)
PARTLY(read, (int fd, void *to, size_t size), (fd, to, size), fd, size, PART | WAITS)
PARTLY(pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at), fd, size, PART | WAITS)
PARTLY(pread64, (int fd, void *to, size_t size, off64_t at), (fd, to, size, at), fd, size, PART | WAITS)
PARTLY(preadv, (int fd, const struct iovec *parts, int size, off_t at), (fd, parts, size, at), fd, size, PART | WAITS)
PARTLY(preadv64, (int fd, const struct iovec *parts, int size, off64_t at), (fd, parts, size, at), fd, size, PART | WAITS)
PARTLY(copy_file_range, (int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags),
       (in, from, out, to, size, flags), out, size, ROOM | PART | WAITS)

CALL(int, fsync, (int fd), (fd), fd_below(fd), ROOM | WAITS)
CALL(int, fdatasync, (int fd), (fd), fd_below(fd), ROOM | WAITS)
CALL(int, ftruncate, (int fd, off_t size), (fd, size), fd_below(fd), ROOM)
CALL(int, ftruncate64, (int fd, off64_t size), (fd, size), fd_below(fd), ROOM)
CALL(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), fd_below(fd), ROOM)
CALL(int, rename, (const char *old, const char *new), (old, new), path_below(AT_FDCWD, new), ROOM)
CALL(int, renameat, (int one, const char *old, int other, const char *new), (one, old, other, new), path_below(other, new), ROOM)
CALL(int, renameat2, (int one, const char *old, int other, const char *new, unsigned flags), (one, old, other, new, flags), path_below(other, new), ROOM)
CALL(int, link, (const char *old, const char *new), (old, new), path_below(AT_FDCWD, new), ROOM)
CALL(int, linkat, (int one, const char *old, int other, const char *new, int flags), (one, old, other, new, flags), path_below(other, new), ROOM)
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode), path_below(AT_FDCWD, path), ROOM)
CALL(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode), path_below(fd, path), ROOM)
CALL(int, unlink, (const char *path), (path), path_below(AT_FDCWD, path), OTHER)
CALL(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags), path_below(fd, path), OTHER)
CALL(int, rmdir, (const char *path), (path), path_below(AT_FDCWD, path), OTHER)
CALL(int, fchmod, (int fd, mode_t mode), (fd, mode), fd_below(fd), OTHER)
CALL(int, fchown, (int fd, uid_t owner, gid_t group), (fd, owner, group), fd_below(fd), OTHER)
CALL(int, flock, (int fd, int operation), (fd, operation), operation != LOCK_UN && fd_below(fd), WAITS)
CALL(off_t, lseek, (int fd, off_t at, int whence), (fd, at, whence), fd_below(fd), OTHER)
CALL(off64_t, lseek64, (int fd, off64_t at, int whence), (fd, at, whence), fd_below(fd), OTHER)
CALL(int, fstat, (int fd, struct stat *found), (fd, found), fd_below(fd), OTHER)
CALL(int, fstat64, (int fd, struct stat64 *found), (fd, found), fd_below(fd), OTHER)
CALL(int, stat, (const char *path, struct stat *found), (path, found), path_below(AT_FDCWD, path), OTHER)
CALL(int, stat64, (const char *path, struct stat64 *found), (path, found), path_below(AT_FDCWD, path), OTHER)
CALL(int, lstat, (const char *path, struct stat *found), (path, found), path_below(AT_FDCWD, path), OTHER)
CALL(int, lstat64, (const char *path, struct stat64 *found), (path, found), path_below(AT_FDCWD, path), OTHER)
CALL(int, fstatat, (int fd, const char *path, struct stat *found, int flags), (fd, path, found, flags), path_below(fd, path), OTHER)
CALL(int, fstatat64, (int fd, const char *path, struct stat64 *found, int flags), (fd, path, found, flags), path_below(fd, path), OTHER)

/* The same as programs that were built with an older libc call them. */
int __fxstat64(int, int, struct stat64 *);
int __xstat64(int, const char *, struct stat64 *);
int __lxstat64(int, const char *, struct stat64 *);
CALL(int, __fxstat64, (int version, int fd, struct stat64 *found), (version, fd, found), fd_below(fd), OTHER)
CALL(int, __xstat64, (int version, const char *path, struct stat64 *found), (version, path, found), path_below(AT_FDCWD, path), OTHER)
CALL(int, __lxstat64, (int version, const char *path, struct stat64 *found), (version, path, found), path_below(AT_FDCWD, path), OTHER)

#define MAP(name, offset) \
    void *name(void *at, size_t size, int guard, int flags, int fd, offset from) { \
        REAL(name) \
        int fails = !(flags & MAP_ANONYMOUS) && due(fd_below(fd), OTHER, #name) == 1; \
        return fails ? MAP_FAILED : real(at, size, guard, flags, fd, from); \
    }

MAP(mmap, off_t)
MAP(mmap64, off64_t)

int close(int fd) { /* what was open is not, even where this fails */
    REAL(close)
    int fails = due(fd_below(fd), OTHER, "close") == 1;
    int done = real(fd);
    if (!fails) return done;
    errno = number;
    return -1;
}

#define CONTROL(name) \
    int name(int fd, int command, ...) { \
        REAL(name) \
        va_list more; \
        va_start(more, command); \
        void *with = va_arg(more, void *); \
        va_end(more); \
        int locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || \
                    command == F_OFD_SETLKW; \
        locks = locks && ((struct flock *)with)->l_type != F_UNLCK; \
        return due(locks && fd_below(fd), WAITS, #name) == 1 ? -1 : real(fd, command, with); \
    }

CONTROL(fcntl)
CONTROL(fcntl64)

long syscall(long what, ...) { /* calls that libc has no name for, or that are made without it */
    REAL(syscall)
    long a[6];
    va_list more;
    va_start(more, what);
    for (int i = 0; i < 6; i++) a[i] = va_arg(more, long);
    va_end(more);
    int fails = 0;
    if (what == SYS_openat2)
        fails = due(path_below((int)a[0], (const char *)a[1]), WAITS, "openat2");
    if (what == SYS_renameat2)
        fails = due(path_below((int)a[2], (const char *)a[3]), ROOM, "renameat2");
    if (what == SYS_statx)
        fails = due(path_below((int)a[0], (const char *)a[1]), OTHER, "statx");
    return fails == 1 ? -1 : real(what, a[0], a[1], a[2], a[3], a[4], a[5]);
}
