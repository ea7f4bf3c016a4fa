/* Leaves one end of every connection out: loaded before the library, it makes the system calls of that end itself.
 * Built with -DACCEPTING, accepted sockets are left out, which the library then meets as sockets that came from
 * elsewhere; with -DCONNECTING, those that connect.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* libc's syscall() is hooked as well. */
static long bare(long number, long a, long b, long c, long d)
{
    register long r10 __asm__("r10") = d;
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    if (answer < 0) {
        errno = (int)-answer;
        return -1;
    }
    return answer;
}

#ifdef ACCEPTING
int accept(int fd, struct sockaddr *from, socklen_t *length)
{
    return (int)bare(SYS_accept, fd, (long)from, (long)length, 0);
}

int accept4(int fd, struct sockaddr *from, socklen_t *length, int flags)
{
    return (int)bare(SYS_accept4, fd, (long)from, (long)length, flags);
}
#endif

#ifdef CONNECTING
/* A socket that was asked for time stamps before it is connected stays the kernel's: the hook notes the question. */
int connect(int fd, const struct sockaddr *to, socklen_t length)
{
    int off = 0, before = errno;
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &off, sizeof off);
    errno = before;
    return (int)bare(SYS_connect, fd, (long)to, length, 0);
}
#endif
