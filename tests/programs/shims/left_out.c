/* Leaves one end of every connection out of Ringway's sight: loaded before the library, it makes the system calls of
 * that end itself. Built with -DACCEPTING, accepted sockets are left out; with -DCONNECTING, those that connect.
 * The library meets such a socket as one that came to the process from elsewhere.
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
int socket(int domain, int kind, int protocol)
{
    return (int)bare(SYS_socket, domain, kind, protocol, 0);
}

int connect(int fd, const struct sockaddr *to, socklen_t length)
{
    return (int)bare(SYS_connect, fd, (long)to, length, 0);
}
#endif
