/**
 * The clients for `npm run bench -- subscribers`, in a separate process. Arguments: the URL of the API, the
 * number of clients, how many runs each of them waits for, and after how many events each of them disconnects
 * and continues where it left off. Prints `ready` when all have received their snapshot. At the end, prints
 * as JSON how long each change of a run's status took to arrive.
 */
import http from 'node:http';
import { token } from './daemon.ts';

const [url = '', count = '', runs = '', eventsBetween = ''] = process.argv.slice(2);
const delays: number[] = [];
const agent = new http.Agent({ maxSockets: Infinity });
let [ready, returns, snapshots] = [0, 0, 0];

interface Record {
  run_id: string;
  status: string;
  queued_at: string | null;
  started_at: string | null;
  finished_at: string | null;
}

interface Follower {
  /** The last known status of each run. */
  seen: Map<string, string>;
  succeeded: number;
  /** The id of the last event. */
  id: string | null;
}

const followers = await Promise.all(Array.from({ length: Number(count) }, (_, index) => followAll(index)));
const sorted = delays.toSorted((a, b) => a - b);
const at = (share: number): number => sorted[Math.floor((sorted.length - 1) * share)] ?? 0;
const incomplete = followers.filter(({ succeeded }) => succeeded !== Number(runs)).length;
console.log(
  JSON.stringify({
    ...{ changes: sorted.length, incomplete, returns, gaps: snapshots - followers.length },
    ...{ p50: at(0.5), p95: at(0.95), most: at(1) },
  }),
);

/** Follows all runs. Resolves when all of them have succeeded, or when the API has ended the stream. */
async function followAll(index: number): Promise<Follower> {
  const follower: Follower = { seen: new Map(), succeeded: 0, id: null };
  // Each client disconnects at a different time.
  let events = Math.ceil((Number(eventsBetween) * (index + 1)) / Number(count));
  for (;;) {
    const left = await follow(follower, events);
    if (!left || follower.succeeded === Number(runs)) return follower;
    events = Number(eventsBetween);
    returns += 1;
  }
}

/**
 * Follows runs over one connection. Resolves to true after this many events. If an event was sent while the
 * client was disconnected, the delay is measured from when it reconnected.
 */
function follow(follower: Follower, events: number): Promise<boolean> {
  return new Promise((resolve) => {
    const { id } = follower;
    const headers = { authorization: `Bearer ${token}`, ...(id === null ? {} : { 'last-event-id': id }) };
    let [rest, taken] = ['', 0];
    const request = http.get(`${url}v1/events?limit=1`, { agent, headers }, (response) => {
      const back = Date.now();
      response.setEncoding('utf8').on('data', (chunk: string) => {
        const now = Date.now();
        const blocks = (rest + chunk).split('\n\n');
        rest = blocks.pop() ?? '';
        for (const block of blocks) {
          if (taken >= events || follower.succeeded === Number(runs)) break;
          taken += Number(takeEvent(follower, block, { now, back }));
        }
        if (taken >= events || follower.succeeded === Number(runs)) request.destroy();
      });
      response.on('close', () => resolve(taken >= events));
    });
    request.on('error', () => undefined);
  });
}

/** Reports whether the event was about a run. */
function takeEvent(follower: Follower, block: string, { now, back }: { now: number; back: number }): boolean {
  follower.id = /^id: (.+)$/m.exec(block)?.[1] ?? follower.id;
  const event = /^event: (\w+)$/m.exec(block)?.[1];
  if (event === 'snapshot') {
    snapshots += 1;
    if ((ready += 1) === Number(count)) console.log('ready');
  }
  if (event !== 'run') return false;
  const record = JSON.parse(/^data: (.*)$/m.exec(block)?.[1] ?? '') as Record;
  if (follower.seen.get(record.run_id) === record.status) return true;
  follower.seen.set(record.run_id, record.status);
  const changed = Date.parse(record.finished_at ?? record.started_at ?? record.queued_at ?? '');
  delays.push(now - (follower.id === null ? changed : Math.max(changed, back)));
  if (record.status === 'succeeded') follower.succeeded += 1;
  return true;
}
