/* Calls that have a name of their own where files may be large. */
#include "script.h"

#include <sys/sendfile.h>

SCRIPT(fcntl64_and_sendfile64) {
    int a = bound(0), file = CALL(memfd_create("file", 0));
    far_opens(PORT(5));
    CALL(connect(a, V4(FAR, PORT(5))));
    CALL(fcntl(a, F_SETFL, O_NONBLOCK));
    CALL(fcntl64(a, F_GETFL));
    WAITS(0, RECV(a, 10, 0));
    int copy = CALL(fcntl64(a, F_DUPFD, 40));
    CALL(write(file, "contents", 8));
    off64_t offset = 0;
    CALL(sendfile64(copy, file, &offset, 8));
    far_receives(PORT(5));
    CALL(close(a));
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 3);
    RECV(copy, 10, 0);
}
