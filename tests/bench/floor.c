/* The floor of a round trip: two processes, a local socket of packets, epoll, 150 bytes each way.
   Prints the nanoseconds of each of argv[1] round trips, one a line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void echo(int sock, long rounds, int first) {
    char packet[150] = {0};
    struct epoll_event event = {.events = EPOLLIN};
    int poll = epoll_create1(0);
    epoll_ctl(poll, EPOLL_CTL_ADD, sock, &event);
    for (long round = 0; round < rounds; round++) {
        struct timespec began, ended;
        clock_gettime(CLOCK_MONOTONIC, &began);
        if (first && write(sock, packet, sizeof packet) != sizeof packet) exit(1);
        epoll_wait(poll, &event, 1, -1);
        if (read(sock, packet, sizeof packet) != sizeof packet) exit(1);
        if (!first && write(sock, packet, sizeof packet) != sizeof packet) exit(1);
        clock_gettime(CLOCK_MONOTONIC, &ended);
        if (first)
            printf("%ld\n", (ended.tv_sec - began.tv_sec) * 1000000000L
                                + ended.tv_nsec - began.tv_nsec);
    }
}

int main(int argc, char **argv) {
    int ends[2];
    if (argc != 2 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends)) return 1;
    int first = fork() != 0;
    echo(ends[first], atol(argv[1]), first);
    return 0;
}
