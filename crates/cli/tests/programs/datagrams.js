// serve ADDRESS PORT: echoes. ask ADDRESS PORT COUNT: asks one after the other, and says how many answers were right.
const dgram = require('dgram');
const [, , role, address, port, count] = process.argv;
const socket = dgram.createSocket('udp4');
if (role === 'serve') {
  socket.on('message', (message, from) => socket.send(message, from.port, from.address));
  socket.bind(Number(port), address);
  process.on('SIGTERM', () => socket.close());
} else {
  let asked = 0, right = 0;
  const ask = () => asked < Number(count) ? socket.send(`question ${asked}`, Number(port), address) : end();
  const end = () => { console.log(`${right} right of ${count}`); socket.close(); };
  socket.on('message', (message) => {
    if (message.toString() === `question ${asked}`) right++;
    asked++;
    ask();
  });
  socket.bind(0, ask);
}
