# A program of `ownership.rs`: makes the socket calls that it is told of by one pipe, and answers by another. The text that
# `accelerated.rs` puts in front has `near` and `far`.
directory, name = 'DIRECTORY', sys.argv[3] if len(sys.argv) > 3 else 'NAME'
sockets = {}
if len(sys.argv) > 4:
    for entry in filter(None, sys.argv[4].split(',')):
        key, fd = entry.split('=')
        sockets[key] = socket.socket(fileno=int(fd))

def open_pipes():
    global commands, answers
    commands = open(f'{directory}/{name}.commands')
    answers = os.open(f'{directory}/{name}.answers', os.O_WRONLY)

def answer(text): os.write(answers, f'{text}\n'.encode())

def take(one):
    numbers = []
    while True:
        try: data = one.recv(100, socket.MSG_DONTWAIT)
        except BlockingIOError: return numbers
        numbers.append(str(int.from_bytes(data, 'big')))

def act(what, words):
    global name
    if what == 'open':
        made = udp()
        if words[2] == 'shared': made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind((near, int(words[1])))
        sockets[words[0]] = made
    elif what == 'connect': sockets[words[0]].connect((far, int(words[1])))
    elif what == 'read': return ' '.join(take(sockets[words[0]]))
    elif what == 'poll':
        select.select([sockets[words[0]]], [], [], 0.05)
        return ' '.join(take(sockets[words[0]]))
    elif what == 'send': sockets[words[0]].sendto(int(words[2]).to_bytes(4, 'big'), (far, int(words[1])))
    elif what == 'send_connected': sockets[words[0]].send(int(words[1]).to_bytes(4, 'big'))
    elif what == 'close': sockets.pop(words[0]).close()
    elif what == 'fork':
        child = os.fork()
        if child: return child
        name = words[0]
        open_pipes()
    elif what == 'exec':
        for one in sockets.values(): one.set_inheritable(True)
        kept = ','.join(f'{key}={one.fileno()}' for key, one in sockets.items())
        os.execv(sys.executable, sys.orig_argv[:3] + [near, far, name, kept])
    return ''

open_pipes()
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
answer('')
while True:
    what, *words = commands.readline().split()
    if what == 'quit':
        answer('')
        sys.exit()
    try: said = act(what, words)
    except OSError as failed: said = errno.errorcode[failed.errno]
    answer(said)
