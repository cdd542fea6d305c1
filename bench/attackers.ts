/**
 * The clients of `npm run bench -- anonymous`, in a separate process, so that they compete only with the
 * daemon. Arguments: URL, attack, number of connections, and seconds. Prints the answers by status.
 */
import { type ClientRequest, request } from 'node:http';
import { pathToFileURL } from 'node:url';

type Write = (outgoing: ClientRequest) => void;

/** One request of an attack. */
interface Attack {
  path: string;
  headers: Record<string, string | number>;
  body: Write;
}

const json = { 'content-type': 'application/json' };
const validate = '/v1/scene-maps/validate';
const maxDocument = 4 << 20;
const block = Buffer.alloc(1 << 20, 'x');
const deep = Buffer.from('['.repeat(maxDocument - 1));
const emptyScenes = Buffer.from(`{"scenes":[${'{},'.repeat((maxDocument - 20) / 3)}{}]}`);

const attacks = {
  'large uploads without a token': {
    path: '/v1/pipelines/p0/upload',
    headers: { 'content-type': 'application/x-tar', 'content-length': 1 << 30 },
    body: writeBlocks,
  },
  'deeply nested JSON': { path: validate, headers: json, body: (outgoing) => outgoing.end(deep) },
  'a million empty scenes': { path: validate, headers: json, body: (outgoing) => outgoing.end(emptyScenes) },
  'slow bodies': {
    path: validate,
    headers: { ...json, 'content-length': maxDocument },
    body: (outgoing) => {
      outgoing.write(block.subarray(0, 64));
      const timer = setInterval(() => outgoing.write(' '), 100);
      outgoing.on('close', () => clearInterval(timer));
    },
  },
  'bodies one byte short': {
    path: validate,
    headers: { ...json, 'content-length': maxDocument },
    body: (outgoing) => outgoing.write(Buffer.alloc(maxDocument - 1, ' ')),
  },
  'partial uploads without a token': {
    path: '/v1/pipelines/p0/uploads',
    headers: { 'tus-resumable': '1.0.0', 'upload-length': 1 << 30, 'content-length': 0 },
    body: (outgoing) => outgoing.end(),
  },
  'wrong logins': {
    path: '/console/login',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: (outgoing) => outgoing.end('token=a-guess-of-24-characters'),
  },
} as const satisfies Record<string, Attack>;

export type AttackName = keyof typeof attacks;
export const attackNames = Object.keys(attacks) as AttackName[];

/** Sends until the socket is full, and again when it drains. */
function writeBlocks(outgoing: ClientRequest): void {
  const more = (): void => {
    while (!outgoing.destroyed && outgoing.write(block));
  };
  outgoing.on('drain', more);
  more();
}

async function main([url = '', name = '', count = '', seconds = '']: readonly string[]): Promise<void> {
  const attack: Attack = attacks[name as AttackName];
  const until = performance.now() + Number(seconds) * 1000;
  const answers: Record<string, number> = {};
  const attacker = async (index: number): Promise<void> => {
    while (performance.now() < until) {
      const answer = await sent(url, attack, `127.0.1.${index + 1}`, until - performance.now());
      answers[answer] = (answers[answer] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: Number(count) }, (_, index) => attacker(index)));
  console.log(JSON.stringify(answers));
}

/** Resolves with the status, `closed` without one, or `open` without an answer by the end of the attack. */
function sent(base: string, attack: Attack, localAddress: string, timeoutMs: number): Promise<string> {
  return new Promise((resolve) => {
    const { path, headers, body } = attack;
    const options = { method: 'POST', headers, localAddress, agent: false };
    const outgoing = request(new URL(path, base), options, (response) => {
      resolve(String(response.statusCode));
      response.resume().on('end', () => outgoing.destroy());
    });
    const timer = setTimeout(() => {
      resolve('open');
      outgoing.destroy();
    }, timeoutMs);
    outgoing
      .on('error', () => resolve('closed'))
      .on('close', () => {
        clearTimeout(timer);
        resolve('closed');
      });
    body(outgoing);
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main(process.argv.slice(2));
