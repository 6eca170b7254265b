/* Bytes through connections of TCP: every call that sends and receives them, and its flags. */
#include "script.h"

#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

EACH_WAY(peeked_and_then_received) {
    exchange_stream(fd);
    order_far(fd, "!s30.");
    sleep_ms(50);
    RECV(fd, 10, MSG_PEEK);
    RECV(fd, 40, MSG_PEEK);
    RECV(fd, 20, 0);
    RECV(fd, 20, MSG_PEEK);
    RECV(fd, 20, 0);
}

EACH_WAY(bytes_are_discarded_with_trunc) {
    char byte;
    exchange_stream(fd);
    order_far(fd, "!s1000.");
    sleep_ms(50);
    CALL(recv(fd, NULL, 900, MSG_TRUNC));
    RECV(fd, 10, 0);
    CALL(recv(fd, &byte, 90, MSG_TRUNC));
    exchange_stream(fd);
}

EACH_WAY(wait_for_all_ends_with_the_stream) {
    exchange_stream(fd);
    order_far(fd, "!s100.!w30.!c.");
    receive_stream(fd, 200, MSG_WAITALL, "all");
    RECEIVE_STREAM(fd, 1);
}

EACH_WAY(message_waits_for_all_of_it) {
    char first[150], second[50];
    struct iovec in[] = { { first, sizeof first }, { second, sizeof second } };
    struct msghdr received = { .msg_iov = in, .msg_iovlen = 2, .msg_namelen = 7, .msg_flags = MSG_OOB };
    exchange_stream(fd);
    order_far(fd, "!s100.!w30.!s100.");
    WAITS(30, CALL(recvmsg(fd, &received, MSG_WAITALL)));
    show_header(&received);
    long sum = 0;
    for (int i = 0; i < 200; i++) sum = (sum * 31 + (i < 150 ? first[i] : second[i - 150])) % 1000003;
    say("sum %ld", sum);
    exchange_stream(fd);
    order_far(fd, "!s100.!w30.!c.");
    received.msg_flags = MSG_OOB;
    CALL(recvmsg(fd, &received, MSG_WAITALL));
    show_header(&received);
    CALL(recvmsg(fd, &received, MSG_WAITALL));
    show_header(&received);
}

EACH_WAY(message_of_bytes_that_are_discarded) {
    struct iovec nowhere = { NULL, 60 };
    struct msghdr received = { .msg_iov = &nowhere, .msg_iovlen = 1, .msg_flags = MSG_OOB };
    exchange_stream(fd);
    order_far(fd, "!s100.!w30.!s50.");
    sleep_ms(80);
    CALL(recvmsg(fd, &received, MSG_TRUNC));
    show_header(&received);
    CALL(recvmsg(fd, &received, MSG_TRUNC | MSG_PEEK));
    CALL(recvmsg(fd, &received, MSG_TRUNC | MSG_WAITALL));
    RECV(fd, 30, 0);
    exchange_stream(fd);
}

EACH_WAY(much_in_small_pieces) {
    char piece[7];
    exchange_stream(fd);
    order_far(fd, "!s20000.");
    sleep_ms(50);
    long sum = 0, received = 0;
    while (received < 20000) {
        long last = recv(fd, piece, received + 7 <= 20000 ? 7 : 20000 - received, 0);
        if (last <= 0) break;
        for (long i = 0; i < last; i++) sum = (sum * 31 + piece[i]) % 1000003;
        received += last;
    }
    say("%ld bytes, sum %ld", received, sum);
    exchange_stream(fd);
}

EACH_WAY(many_small_sends_come_in_order) {
    exchange_stream(fd);
    for (int i = 0; i < 500; i++) {
        char number[6];
        snprintf(number, sizeof number, "%05d", i);
        if (send(fd, number, 5, MSG_NOSIGNAL) != 5) say("send %d: %s", i, strerrorname_np(errno));
    }
    RECEIVE_STREAM(fd, 2500);
}

EACH_WAY(messages_of_several_parts) {
    char first[3], second[40];
    struct iovec out[] = { { "head", 4 }, { "", 0 }, { "body of it", 10 }, { "tail", 4 } };
    struct iovec in[] = { { first, sizeof first }, { second, sizeof second } };
    struct msghdr sent = { .msg_iov = out, .msg_iovlen = 4 }, received = { .msg_iov = in, .msg_iovlen = 2 };
    exchange_stream(fd);
    CALL(sendmsg(fd, &sent, MSG_NOSIGNAL));
    sleep_ms(50);
    CALL(recvmsg(fd, &received, 0));
    show_header(&received);
    say("%.3s and %.15s", first, second);
    exchange_stream(fd);
}

SCRIPT(several_messages_of_one_call) {
    int fd = connected_stream(AF_INET);
    char data[3][4];
    struct iovec out[] = { { "one", 3 }, { "two", 3 }, { "six", 3 } };
    struct iovec in[] = { { data[0], 4 }, { data[1], 4 }, { data[2], 4 } };
    struct mmsghdr sent[3] = { 0 }, received[3] = { 0 };
    for (int i = 0; i < 3; i++) {
        sent[i].msg_hdr = (struct msghdr){ .msg_iov = &out[i], .msg_iovlen = 1 };
        received[i].msg_hdr = (struct msghdr){ .msg_iov = &in[i], .msg_iovlen = 1 };
    }
    exchange_stream(fd);
    CALL(sendmmsg(fd, sent, 3, 0));
    for (int i = 0; i < 3; i++) say("sent %u", sent[i].msg_len);
    sleep_ms(50);
    CALL(recvmmsg(fd, received, 3, 0, NULL));
    for (int i = 0; i < 3; i++) say("received %u: %.*s", received[i].msg_len, (int)received[i].msg_len, data[i]);
    exchange_stream(fd);
}

SCRIPT(several_messages_of_a_call_that_waits_for_one) {
    int fd = connected_stream(AF_INET);
    char data[3][4];
    struct iovec in[] = { { data[0], 4 }, { data[1], 4 }, { data[2], 4 } };
    struct mmsghdr received[3] = { 0 };
    for (int i = 0; i < 3; i++) received[i].msg_hdr = (struct msghdr){ .msg_iov = &in[i], .msg_iovlen = 1 };
    exchange_stream(fd);
    order_far(fd, "!w40.!s6.");
    CALL(recvmmsg(fd, received, 3, MSG_WAITFORONE, NULL));
    for (int i = 0; i < 2; i++) say("received %u", received[i].msg_len);
    exchange_stream(fd);
}

SCRIPT(several_messages_within_a_time) {
    int fd = connected_stream(AF_INET);
    char data[2][4];
    struct iovec in[] = { { data[0], 4 }, { data[1], 4 } };
    struct mmsghdr received[2] = { 0 };
    for (int i = 0; i < 2; i++) received[i].msg_hdr = (struct msghdr){ .msg_iov = &in[i], .msg_iovlen = 1 };
    struct timespec none = { 0, 0 }, wrong = { 0, -1 };
    exchange_stream(fd);
    SEND(fd, "abcd", 0);
    sleep_ms(50);
    CALL(recvmmsg(fd, received, 2, MSG_DONTWAIT, NULL));
    CALL(recvmmsg(fd, received, 2, MSG_DONTWAIT, &none));
    CALL(recvmmsg(fd, received, 2, 0, &wrong));
    exchange_stream(fd);
}

SCRIPT(flags_that_mean_nothing_to_a_stream) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SEND(fd, "a", MSG_EOR);
    SEND(fd, "b", MSG_CONFIRM);
    SEND(fd, "c", MSG_DONTROUTE);
    SEND(fd, "d", MSG_PROXY);
    RECEIVE_STREAM(fd, 4);
    SEND(fd, "e", 0);
    sleep_ms(30);
    RECVMSG(fd, 10, 100, MSG_CMSG_CLOEXEC);
    exchange_stream(fd);
}

SCRIPT(nothing_is_waiting_in_the_error_queue) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    RECVMSG(fd, 10, 100, MSG_ERRQUEUE);
    RECVMSG(fd, 10, 100, MSG_ERRQUEUE | MSG_DONTWAIT);
    exchange_stream(fd);
}

SCRIPT(send_with_an_address_of_a_connection) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SENDTO(fd, "elsewhere", V4(NOBODY, 7));
    SENDTO(fd, "of the other family", V6(FAR6, 7));
    SENDTO(fd, "short", (struct sockaddr *)v4(FAR, 7), 3);
    RECEIVE_STREAM(fd, 28);
    exchange_stream(fd);
}

SCRIPT(control_messages_of_a_send) {
    int fd = connected_stream(AF_INET);
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec part = { "x", 1 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control,
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    exchange_stream(fd);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = 12345, header->cmsg_len = CMSG_LEN(sizeof(int));
    CALL(sendmsg(fd, &message, 0));
    header->cmsg_level = IPPROTO_IP, header->cmsg_type = 2;
    CALL(sendmsg(fd, &message, 0));
    header->cmsg_len = 3;
    CALL(sendmsg(fd, &message, 0));
    exchange_stream(fd);
}

SCRIPT(parts_that_are_bad) {
    int fd = connected_stream(AF_INET);
    char data[8];
    struct iovec second_bad[] = { { "good", 4 }, { nowhere(), 4 } };
    struct iovec into_bad[] = { { data, 2 }, { nowhere(), 4 } };
    struct iovec long_part[] = { { data, (size_t)-1 } };
    /* That the compiler does not see through. */
    volatile int none = -1, too_many = 1025;
    exchange_stream(fd);
    CALL(writev(fd, second_bad, 2));
    sleep_ms(30);
    RECEIVE_STREAM(fd, 0);
    CALL(writev(fd, long_part, 1));
    CALL(writev(fd, second_bad, none));
    CALL(writev(fd, second_bad, too_many));
    CALL(readv(fd, into_bad, too_many));
    exchange_stream(fd);
    order_far(fd, "!s6.");
    sleep_ms(30);
    CALL(readv(fd, into_bad, 2));
    exchange_stream(fd);
}

SCRIPT(position_is_refused) {
    int fd = connected_stream(AF_INET);
    char data[4];
    struct iovec part = { data, 4 };
    exchange_stream(fd);
    CALL(lseek(fd, 0, SEEK_SET));
    CALL(pread(fd, data, 4, 0));
    CALL(pwrite(fd, "x", 1, 0));
    CALL(preadv(fd, &part, 1, 0));
    CALL(ftruncate(fd, 0));
    CALL(fsync(fd));
    SEND(fd, "abcd", 0);
    sleep_ms(30);
    CALL(preadv2(fd, &part, 1, -1, 0));
    CALL(pwritev2(fd, &part, 1, -1, 0));
    RECEIVE_STREAM(fd, 4);
    exchange_stream(fd);
}

EACH_WAY(large_file_is_sent) {
    int file = CALL(memfd_create("file", 0));
    static char page[4096];
    for (size_t i = 0; i < sizeof page; i++) page[i] = 'a' + i % 26;
    for (int i = 0; i < 64; i++) CALL(write(file, page, sizeof page));
    exchange_stream(fd);
    off_t offset = 1000;
    long sent = 0, last = 1;
    while (offset < 64 * 4096 && last > 0) {
        last = sendfile(fd, file, &offset, 64 * 4096 - offset);
        sent += last > 0 ? last : 0;
        if (sent > 100000 || offset == 64 * 4096) {
            RECEIVE_STREAM(fd, sent);
            sent = 0;
        }
    }
    say("offset %ld", (long)offset);
    exchange_stream(fd);
}

SCRIPT(file_at_its_end_and_beyond) {
    int fd = connected_stream(AF_INET), file = CALL(memfd_create("file", 0));
    CALL(write(file, "contents", 8));
    exchange_stream(fd);
    CALL(sendfile(fd, file, NULL, 8));
    CALL(lseek(file, 3, SEEK_SET));
    CALL(sendfile(fd, file, NULL, 100));
    CALL(lseek(file, 0, SEEK_CUR));
    off_t beyond = 100;
    CALL(sendfile(fd, file, &beyond, 8));
    CALL(sendfile(file, fd, NULL, 8));
    CALL(sendfile(fd, fd, NULL, 8));
    RECEIVE_STREAM(fd, 5);
    exchange_stream(fd);
}

SCRIPT(pipe_into_a_connection_and_back) {
    int fd = connected_stream(AF_INET), in[2], out[2];
    CALL(pipe(in));
    CALL(pipe(out));
    exchange_stream(fd);
    CALL(write(in[1], "through a pipe", 14));
    CALL(splice(in[0], NULL, fd, NULL, 100, SPLICE_F_MOVE | SPLICE_F_NONBLOCK));
    sleep_ms(50);
    CALL(splice(fd, NULL, out[1], NULL, 5, SPLICE_F_MOVE));
    CALL(splice(fd, NULL, out[1], NULL, 100, SPLICE_F_MORE));
    READ(out[0], 100);
    exchange_stream(fd);
}

SCRIPT(splice_that_waits) {
    int fd = connected_stream(AF_INET), out[2];
    CALL(pipe(out));
    exchange_stream(fd);
    order_far(fd, "!w50.!s10.");
    WAITS(50, CALL(splice(fd, NULL, out[1], NULL, 100, 0)));
    READ(out[0], 100);
    order_far(fd, "!c.");
    CALL(splice(fd, NULL, out[1], NULL, 100, 0));
}

SCRIPT(wait_for_all_that_a_signal_ends) {
    int fd = connected_stream(AF_INET);
    char data[100];
    exchange_stream(fd);
    order_far(fd, "!s30.");
    sleep_ms(50);
    handle(SIGALRM, no_signal, 0);
    alarm_in_ms(50);
    CALL(recv(fd, data, sizeof data, MSG_WAITALL));
    alarm_in_ms(50);
    CALL(recv(fd, data, sizeof data, MSG_WAITALL));
    exchange_stream(fd);
}

SCRIPT(wait_for_all_that_its_time_ends) {
    int fd = connected_stream(AF_INET);
    struct timeval time = { 0, 60000 };
    char data[100];
    CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    exchange_stream(fd);
    order_far(fd, "!s30.");
    WAITS(60, CALL(recv(fd, data, sizeof data, MSG_WAITALL)));
    WAITS(60, CALL(recv(fd, data, sizeof data, MSG_WAITALL)));
    exchange_stream(fd);
}

SCRIPT(wait_for_all_that_peeks) {
    int fd = connected_stream(AF_INET);
    char data[100];
    exchange_stream(fd);
    order_far(fd, "!s20.!w40.!s20.");
    CALL(recv(fd, data, 40, MSG_WAITALL | MSG_PEEK));
    CALL(recv(fd, data, 50, MSG_WAITALL | MSG_DONTWAIT));
    CALL(recv(fd, data, 50, MSG_WAITALL | MSG_DONTWAIT));
    exchange_stream(fd);
}

SCRIPT(send_that_a_signal_interrupts) {
    int fd = connected_stream(AF_INET);
    static char data[1 << 22];
    exchange_stream(fd);
    order_far(fd, "!d.!w400.");
    sleep_ms(20);
    handle(SIGALRM, no_signal, 0);
    alarm_in_ms(100);
    long sent = 0, last = 1;
    for (int i = 0; i < 32 && last == (long)sizeof data; i++) {
        last = send(fd, data, sizeof data, MSG_NOSIGNAL);
        sent += last > 0 ? last : 0;
    }
    say("interrupted: %d", last != (long)sizeof data);
}

SCRIPT(zero_copy) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
    exchange_stream(fd);
    CALL(send(fd, "copied or not", 13, MSG_ZEROCOPY));
    RECEIVE_STREAM(fd, 13);
    POLL(1000, { fd, 0, 0 });
    RECVMSG(fd, 0, 200, MSG_ERRQUEUE);
    RECVMSG(fd, 0, 200, MSG_ERRQUEUE);
    exchange_stream(fd);
}

SCRIPT(zero_copy_without_the_option) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    CALL(send(fd, "x", 1, MSG_ZEROCOPY));
    RECEIVE_STREAM(fd, 1);
    exchange_stream(fd);
}

EACH_WAY(receive_that_waits_for_all) {
    char all[3000];
    exchange_stream(fd);
    order_far(fd, "!s1000.!w50.!s1000.!w50.!s1000.");
    CALL(recv(fd, all, sizeof all, MSG_WAITALL));
    order_far(fd, "!s500.");
    CALL(recv(fd, all, 500, MSG_WAITALL));
    order_far(fd, "!s500.");
    sleep_ms(20);
    CALL(recv(fd, all, 1000, MSG_WAITALL | MSG_DONTWAIT));
    CALL(recv(fd, all, 1000, MSG_WAITALL | MSG_DONTWAIT));
    struct timeval wait = { .tv_usec = 100000 };
    CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait));
    order_far(fd, "!s700.");
    CALL(recv(fd, all, 1000, MSG_WAITALL));
    CALL(recv(fd, all, 1000, MSG_WAITALL));
    exchange_stream(fd);
    order_far(fd, "!s600.!h.");
    CALL(recv(fd, all, 1000, MSG_WAITALL));
    CALL(recv(fd, all, 1000, MSG_WAITALL));
}

EACH_WAY(pieces_of_a_file) {
    char bytes[200];
    for (int i = 0; i < 200; i++) bytes[i] = (char)i;
    FILE *file = tmpfile();
    for (int i = 0; i < 1000; i++) fwrite(bytes, 1, sizeof bytes, file);
    fflush(file);
    int from = fileno(file);
    off_t at = 150;
    exchange_stream(fd);
    CALL(lseek(from, 10, SEEK_SET));
    CALL(sendfile(fd, from, NULL, 100));
    RECEIVE_STREAM(fd, 100);
    CALL(lseek(from, 0, SEEK_CUR));
    CALL(sendfile(fd, from, &at, 5000));
    RECEIVE_STREAM(fd, 5000);
    say("the next is at %d", (int)at);
    CALL(lseek(from, 0, SEEK_CUR));
    at = 199950;
    CALL(sendfile(fd, from, &at, 5000));
    RECEIVE_STREAM(fd, 50);
    CALL(sendfile(fd, from, &at, 5000));
    exchange_stream(fd);
    at = 0;
    CALL(sendfile(fd, from, &at, 150000));
    RECEIVE_STREAM(fd, 150000);
    exchange_stream(fd);
    CALL(sendfile(fd, fd, NULL, 10));
    CALL(sendfile(fd, 99, NULL, 10));
    CALL(sendfile(fd, from, &at, 0));
    exchange_stream(fd);
}
