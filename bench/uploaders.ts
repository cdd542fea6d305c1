/**
 * The clients for `npm run bench -- health`. They are in a separate process, so that the requests that are
 * measured are only slowed down by the daemon. Arguments: the URL, the number of clients, files per bundle,
 * seconds, and `fresh` to use a new connection for each upload. Prints the result as JSON.
 */
import { Agent, request } from 'node:http';
import { bundleTar } from '../test/fixtures/tar.ts';
import { token } from './daemon.ts';

const [url = '', count = '', files = '', seconds = '', connections = ''] = process.argv.slice(2);
const agent = new Agent(connections === 'fresh' ? {} : { keepAlive: true, maxSockets: Infinity });
const until = performance.now() + Number(seconds) * 1000;
const statuses: Record<number, number> = {};
const times: number[] = [];

await Promise.all(Array.from({ length: Number(count) }, (_, index) => keepUploading(index)));
const sorted = times.toSorted((a, b) => a - b);
const at = (share: number): number => sorted[Math.floor((sorted.length - 1) * share)] ?? 0;
console.log(JSON.stringify({ statuses, p50: at(0.5), p99: at(0.99) }));

async function keepUploading(uploader: number): Promise<void> {
  for (let turn = 0; performance.now() < until; turn += 1) {
    const content = Object.fromEntries(
      Array.from({ length: Number(files) }, (_, file) => [`f${file}.txt`, `${uploader} ${turn} ${file}`]),
    );
    const archive = bundleTar(content, { name: `u${uploader}-${turn % 4}` });
    const begun = performance.now();
    const status = await send(`${url}v1/pipelines/p${uploader % 20}/upload`, archive);
    if (status === 202) times.push(performance.now() - begun);
    statuses[status] = (statuses[status] ?? 0) + 1;
    // If an upload is rejected, try again soon, as producers do.
    if (status !== 202) await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function send(to: string, body: Buffer): Promise<number> {
  return new Promise((resolve) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar' };
    const outgoing = request(to, { agent, method: 'POST', headers }, (response) => {
      response.resume().on('close', () => resolve(response.statusCode ?? 0));
    });
    outgoing.on('error', () => resolve(0)).end(body);
  });
}
