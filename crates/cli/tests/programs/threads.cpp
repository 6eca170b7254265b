// Threads with a socket each: `serve ADDRESS PORT THREADS`, `ask ADDRESS PORT THREADS COUNT`.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr unsigned BATCH = 8;
constexpr size_t ROOM_BYTES = 2000;
// Longer than any pause of a busy machine, shorter than what the caller waits.
constexpr timeval PATIENCE = {2, 0};

std::atomic<unsigned> right{0}, wrong{0}, missing{0}, late{0}, served{0};

[[noreturn]] void fail(const char *what) {
    std::perror(what);
    std::exit(1);
}

// Buffers of one batch, each with room for a datagram.
struct Batch {
    std::vector<char> bytes = std::vector<char>(BATCH * ROOM_BYTES);
    sockaddr_in addresses[BATCH] = {};
    iovec vectors[BATCH] = {};
    mmsghdr messages[BATCH] = {};

    explicit Batch(bool with_addresses) {
        for (unsigned i = 0; i < BATCH; i++) {
            vectors[i] = {&bytes[i * ROOM_BYTES], ROOM_BYTES};
            messages[i].msg_hdr.msg_iov = &vectors[i];
            messages[i].msg_hdr.msg_iovlen = 1;
            if (with_addresses) messages[i].msg_hdr.msg_name = &addresses[i];
        }
    }

    void make_room(bool with_addresses) {
        for (unsigned i = 0; i < BATCH; i++) {
            vectors[i].iov_len = ROOM_BYTES;
            messages[i].msg_hdr.msg_namelen = with_addresses ? sizeof addresses[i] : 0;
        }
    }
};

int open_socket(sockaddr_in address, bool is_server) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    auto name = reinterpret_cast<const sockaddr *>(&address);
    if (fd < 0 || (is_server ? bind(fd, name, sizeof address) : connect(fd, name, sizeof address))) fail("open");
    return fd;
}

void send_all(int fd, mmsghdr *messages, unsigned count) {
    for (unsigned sent = 0; sent < count;) {
        int now = sendmmsg(fd, messages + sent, count - sent, 0);
        if (now <= 0) fail("sendmmsg");
        sent += static_cast<unsigned>(now);
    }
}

// Echoes until an empty datagram comes.
void serve(sockaddr_in address) {
    int fd = open_socket(address, true);
    Batch batch(true);
    for (bool is_end = false; !is_end;) {
        batch.make_room(true);
        int count = recvmmsg(fd, batch.messages, BATCH, MSG_WAITFORONE, nullptr);
        if (count < 1) fail("recvmmsg");
        unsigned answers = 0;
        for (; answers < static_cast<unsigned>(count) && !is_end; answers++) {
            is_end = batch.messages[answers].msg_len == 0;
            batch.vectors[answers].iov_len = batch.messages[answers].msg_len;
        }
        if (is_end) answers--;
        send_all(fd, batch.messages, answers);
        served += answers;
    }
    close(fd);
}

// Number, length and bytes of a question follow from its number.
size_t write_question(char *to, unsigned number) {
    size_t length = 8 + (number * 37) % 1400;
    std::memcpy(to, &number, sizeof number);
    for (size_t at = sizeof number; at < length; at++) to[at] = static_cast<char>(number * 31 + at * 7);
    return length;
}

// Whether it answers one of this batch, or none at all; false: it is late, and its place is another's.
bool check(const char *answer, size_t length, unsigned first, bool *seen) {
    unsigned number = 0;
    char expected[ROOM_BYTES];
    std::memcpy(&number, answer, sizeof number);
    bool is_whole = length >= sizeof number && write_question(expected, number) == length && !std::memcmp(expected, answer, length);
    if (is_whole && number < first) {
        late++;
        return false;
    }
    bool is_right = is_whole && number - first < BATCH && !seen[number - first];
    if (is_right) seen[number - first] = true;
    (is_right ? right : wrong)++;
    return true;
}

void ask(sockaddr_in address, unsigned count) {
    int fd = open_socket(address, false);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &PATIENCE, sizeof PATIENCE)) fail("setsockopt");
    Batch batch(false);
    for (unsigned first = 0; first < count; first += BATCH) {
        bool seen[BATCH] = {};
        for (unsigned i = 0; i < BATCH; i++) batch.vectors[i].iov_len = write_question(&batch.bytes[i * ROOM_BYTES], first + i);
        send_all(fd, batch.messages, BATCH);
        for (unsigned got = 0; got < BATCH;) {
            batch.make_room(false);
            int now = recvmmsg(fd, batch.messages, BATCH - got, 0, nullptr);
            if (now < 1) {
                missing += BATCH - got;
                break;
            }
            for (int i = 0; i < now; i++) got += check(&batch.bytes[i * ROOM_BYTES], batch.messages[i].msg_len, first, seen);
        }
    }
    if (send(fd, "", 0, 0)) fail("send");
    close(fd);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    bool is_server = std::string(argv[1]) == "serve";
    std::vector<std::thread> threads;
    for (int number = 0; number < std::atoi(argv[4]); number++) {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<uint16_t>(std::atoi(argv[3]) + number));
        if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) return 2;
        if (is_server) threads.emplace_back(serve, address);
        else threads.emplace_back(ask, address, static_cast<unsigned>(std::atoi(argv[5])));
    }
    for (auto &thread : threads) thread.join();
    if (is_server) std::printf("%u served\n", served.load());
    else std::printf("%u right, %u wrong, %u missing, %u late\n", right.load(), wrong.load(), missing.load(), late.load());
}
