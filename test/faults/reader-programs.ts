/*
 * Readers in a separate process, to read as often as possible during publications. Each reads until its stdin
 * ends, and prints what it has seen as JSON.
 */

/** Reads the target of `current`, or the directory itself, as often as possible until its stdin ends. */
export const directoryReader = `
const fs = require('node:fs'), path = require('node:path');
const [directory, layout, ...names] = process.argv.slice(1);
const seen = { reads: 0, mixed: 0, missing: 0 }, generations = new Set();
let isOver = false;
process.stdin.on('end', () => (isOver = true)).resume();
function read() {
  try {
    const base = layout === 'releases' ? path.join(directory, fs.readlinkSync(path.join(directory, 'current'))) : directory;
    const found = new Set(names.map((name) => fs.readFileSync(path.join(base, name), 'utf8')));
    seen.reads += 1;
    if (found.size > 1) seen.mixed += 1;
    for (const each of found) generations.add(each);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    seen.missing += 1;
  }
}
(function turn() {
  for (let n = 0; n < 50; n += 1) read();
  if (isOver) console.log(JSON.stringify({ ...seen, generations: generations.size }));
  else setImmediate(turn);
})();
`;

/**
 * Reads the page and then its files through a web server, over `connections` keep-alive connections: the
 * files of the release in the page's `X-Release` header, or of the current content in place. The requests are
 * concurrent.
 */
export const webReader = `
const net = require('node:net'), path = require('node:path');
const [port, layout, connections, page, ...others] = process.argv.slice(1);
const seen = { reads: 0, mixed: 0, missing: 0 }, generations = new Set();
let isOver = false, open = 0;
process.stdin.on('end', () => (isOver = true)).resume();
function connect() {
  const socket = net.connect(Number(port), '127.0.0.1').setNoDelay(true);
  let text = '', expected = 1, answers = [];
  open += 1;
  const ask = (...names) => {
    [expected, answers] = [names.length, []];
    socket.write(names.map((name) => 'GET /' + name + ' HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n').join(''));
  };
  const count = (files) => {
    seen.reads += 1;
    if (files.some(({ status }) => status !== '200')) seen.missing += 1;
    else if (new Set(files.map(({ body }) => body)).size > 1) seen.mixed += 1;
    for (const { body } of files) generations.add(body);
  };
  let first = null;
  const next = () => {
    if (first === null && others.length > 0) {
      [first] = answers;
      const below = layout === 'releases' ? 'releases/' + path.basename(first.release) + '/' : '';
      return ask(...others.map((name) => below + name));
    }
    count([first, ...answers]);
    first = null;
    if (isOver) return socket.end();
    ask(page);
  };
  socket.on('connect', () => ask(page)).on('data', (chunk) => {
    text += chunk.toString('latin1');
    for (let head = text.indexOf('\\r\\n\\r\\n'); head !== -1; head = text.indexOf('\\r\\n\\r\\n')) {
      const length = Number(/^content-length: (\\d+)/im.exec(text)[1]);
      if (text.length < head + 4 + length) return;
      const release = /^x-release: (\\S+)/im.exec(text.slice(0, head))?.[1] ?? '';
      answers.push({ status: text.slice(9, 12), body: text.slice(head + 4, head + 4 + length), release });
      text = text.slice(head + 4 + length);
      if (answers.length === expected) next();
    }
  }).on('close', () => {
    if (!isOver) throw new Error('the server has closed the connection');
    open -= 1;
    if (open === 0) console.log(JSON.stringify({ ...seen, generations: generations.size }));
  });
}
for (let n = 0; n < Number(connections); n += 1) connect();
`;
