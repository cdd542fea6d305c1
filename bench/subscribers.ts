/**
 * The subscribers of `npm run bench -- events`, in a process of their own: URLs of the APIs, separated by
 * commas, how many, and how many runs each of them waits for. Writes `ready` once all have their snapshot,
 * and in the end, as JSON, how long each change of a status took to get here.
 */
import http from 'node:http';
import { token } from './daemon.ts';

const [apis = '', count = '', runs = ''] = process.argv.slice(2);
const urls = apis.split(',');
const delays: number[] = [];
const agent = new http.Agent({ maxSockets: Infinity });
let [ready, incomplete] = [0, 0];

interface Record {
  run_id: string;
  status: string;
  queued_at: string | null;
  started_at: string | null;
  finished_at: string | null;
}

await Promise.all(
  Array.from({ length: Number(count) }, (_, index) => follow(urls[index % urls.length] ?? '')),
);
const sorted = delays.toSorted((a, b) => a - b);
const at = (share: number): number => sorted[Math.floor((sorted.length - 1) * share)] ?? 0;
console.log(JSON.stringify({ changes: sorted.length, incomplete, p50: at(0.5), p95: at(0.95), most: at(1) }));

/** Resolves when every run has succeeded. */
function follow(url: string): Promise<void> {
  return new Promise((resolve) => {
    const headers = { authorization: `Bearer ${token}` };
    const seen = new Map<string, string>();
    let [rest, succeeded] = ['', 0];
    const request = http.get(`${url}v1/events?limit=1`, { agent, headers }, (response) => {
      response.setEncoding('utf8').on('data', (chunk: string) => {
        const now = Date.now();
        const blocks = (rest + chunk).split('\n\n');
        rest = blocks.pop() ?? '';
        for (const block of blocks) {
          const event = /^event: (\w+)$/m.exec(block)?.[1];
          if (event === 'snapshot' && (ready += 1) === Number(count)) console.log('ready');
          if (event !== 'run') continue;
          const record = JSON.parse(/^data: (.*)$/m.exec(block)?.[1] ?? '') as Record;
          if (seen.get(record.run_id) === record.status) continue;
          seen.set(record.run_id, record.status);
          delays.push(now - Date.parse(record.finished_at ?? record.started_at ?? record.queued_at ?? ''));
          if (record.status === 'succeeded') succeeded += 1;
        }
        if (succeeded === Number(runs)) request.destroy();
      });
      response.on('close', () => {
        if (succeeded !== Number(runs)) incomplete += 1;
        resolve();
      });
    });
    request.on('error', () => undefined);
  });
}
