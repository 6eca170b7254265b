/* Calls of files on sockets: read and write, stdio, sendfile, splice. */
#include "script.h"

#include <sys/sendfile.h>

SCRIPT(read_and_write) {
    int a = bound(0);
    CALL(write(a, "x", 1));
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    CALL(write(a, "hello", 5));
    READ(a, 3);
    CALL(write(a, "again", 5));
    READ(a, 100);
    FAR_SENDS(.from = ECHO_PORT + 1, .to = PORT(0), .size = 3);
    CALL(fcntl(a, F_SETFL, O_NONBLOCK));
    READ(a, 100);
}

SCRIPT(stdio) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    far_opens(PORT(5));
    FILE *stream = fdopen(a, "r+");
    CALL(fprintf(stream, "number %d\n", 7));
    CALL(fflush(stream));
    far_receives(PORT(5));
    char line[100] = "";
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 10);
    CALL(fread(line, 1, 10, stream));
    say("%s", line);
    CALL(setvbuf(stream, NULL, _IONBF, 0));
    CALL(fputs("unbuffered", stream));
    far_receives(PORT(5));
    CALL(fclose(stream));
    RECV(a, 10, 0);
}

SCRIPT(dprintf_is_one_datagram) {
    int a = bound(0);
    far_opens(PORT(5));
    CALL(connect(a, V4(FAR, PORT(5))));
    CALL(dprintf(a, "%s and %d", "text", 42));
    far_receives(PORT(5));
}

SCRIPT(sendfile_from_a_file) {
    int a = bound(0), file = CALL(memfd_create("file", 0));
    far_opens(PORT(5));
    CALL(connect(a, V4(FAR, PORT(5))));
    CALL(write(file, "contents of a file", 18));
    off_t offset = 0;
    CALL(sendfile(a, file, &offset, 8));
    say("offset %ld", (long)offset);
    far_receives(PORT(5));
    CALL(sendfile(a, file, &offset, 100));
    far_receives(PORT(5));
    CALL(sendfile(a, file, NULL, 100));
    CALL(sendfile(file, a, NULL, 100));
    CALL(sendfile(a, a, NULL, 100));
}

SCRIPT(splice_both_ways) {
    int a = bound(0), pipes[2];
    CALL(pipe(pipes));
    far_opens(PORT(5));
    CALL(connect(a, V4(FAR, PORT(5))));
    CALL(write(pipes[1], "through a pipe", 14));
    CALL(splice(pipes[0], NULL, a, NULL, 14, 0));
    far_receives(PORT(5));
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 6);
    CALL(splice(a, NULL, pipes[1], NULL, 100, SPLICE_F_NONBLOCK));
    RECV(a, 10, MSG_DONTWAIT);
    CALL(vmsplice(a, &(struct iovec){ "x", 1 }, 1, 0));
    CALL(tee(pipes[0], a, 1, 0));
    CALL(copy_file_range(a, NULL, pipes[1], NULL, 1, 0));
}

SCRIPT(preadv_and_friends) {
    int a = bound(0);
    char data[10];
    struct iovec part = { data, 10 };
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    CALL(preadv(a, &part, 1, 0));
    CALL(pwritev(a, &part, 1, 0));
    CALL(pwritev2(a, &part, 1, -1, 0));
    settle();
    CALL(preadv2(a, &part, 1, -1, RWF_NOWAIT));
    CALL(preadv2(a, &part, 1, -1, RWF_NOWAIT));
    CALL(pwritev2(a, &part, 1, -1, 0));
    CALL(preadv2(a, &part, 1, -1, 0));
}

SCRIPT(read_of_nothing_takes_nothing) {
    int a = bound(0);
    char data[10];
    struct iovec none[] = { { data, 0 }, { data, 0 } };
    FAR_SENDS(.to = PORT(0), .size = 6);
    CALL(read(a, data, 0));
    CALL(readv(a, none, 2));
    CALL(preadv2(a, none, 2, -1, 0));
    RECV(a, 10, MSG_DONTWAIT);
    CALL(fcntl(a, F_SETFL, O_NONBLOCK));
    CALL(readv(a, none, 2));
}

SCRIPT(splice_of_what_was_queued) {
    int a = bound(0), pipes[2];
    char data[10];
    CALL(pipe(pipes));
    FAR_SENDS(.to = PORT(0), .size = 6, .count = 3);
    RECV(a, 10, 0);
    CALL(splice(a, NULL, pipes[1], NULL, 4, 0));
    CALL(read(pipes[0], data, 10));
    FAR_SENDS(.to = PORT(0), .size = 6);
    CALL(splice(a, NULL, pipes[1], NULL, 100, SPLICE_F_NONBLOCK));
    CALL(splice(a, NULL, pipes[1], NULL, 100, SPLICE_F_NONBLOCK));
    CALL(read(pipes[0], data, 10));
    CALL(read(pipes[0], data, 10));
    off_t place = 0;
    CALL(splice(a, &place, pipes[1], NULL, 100, 0));
    CALL(splice(a, NULL, a, NULL, 100, 0));
}
