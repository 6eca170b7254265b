/* bind(2) and the ports it gives. */
#include "script.h"

SCRIPT(any_port) {
    int a = UDP(), b = UDP();
    GETSOCKNAME(a);
    CALL(bind(a, V4(NEAR, 0)));
    GETSOCKNAME(a);
    CALL(bind(b, V4("0.0.0.0", 0)));
    GETSOCKNAME(b);
    CALL(bind(b, V4(NEAR, 0)));
    GETSOCKNAME(b);
}

SCRIPT(echo) {
    int a = bound(0);
    SENDTO(a, "hello", V4(FAR, ECHO_PORT));
    RECVFROM(a, 100, 0);
    CALL(close(a));
}
