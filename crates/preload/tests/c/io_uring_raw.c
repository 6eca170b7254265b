/* The same program without the C library's syscall(). */
#define RAW
#include "io_uring.c"
