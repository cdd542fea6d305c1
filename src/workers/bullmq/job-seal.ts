import { createHmac, timingSafeEqual } from 'node:crypto';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import type { PublishJob } from '../queue/job.ts';

/**
 * Jobs as text for Redis, whose content other programs may change. With keys, the text carries a MAC over the
 * whole job: run id, pipeline, channel, bundle path, and the name, size and digest of the staged archive.
 */
export interface JobSeal {
  seal(job: PublishJob): string;
  /**
   * Returns the job. With keys, throws `job_rejected` unless one of them made the MAC and the job has this
   * run id. Without `runId`, the job of any run is accepted.
   */
  open(text: string, runId?: string): PublishJob;
}

const sealed = /^(\{.*),"mac":"([0-9a-f]{64})"\}$/s;
const minKeyCharacters = 32;

/** The first key signs, and all are accepted. Without keys nothing is signed or checked. */
export function jobSeal(keys: readonly string[] = []): JobSeal {
  const [first] = keys;
  const macOf = (key: string, body: string): Buffer =>
    createHmac('sha256', key).update('waybill job 1\n').update(body).digest();
  return {
    seal: (job) => {
      const body = JSON.stringify(job);
      return first === undefined
        ? body
        : `${body.slice(0, -1)},"mac":"${macOf(first, body).toString('hex')}"}`;
    },
    open: (text, runId) => {
      const [, start, mac = ''] = sealed.exec(text) ?? [];
      const body = start === undefined ? text : `${start}}`;
      const given = Buffer.from(mac, 'hex');
      const isAuthentic = (key: string): boolean => mac !== '' && timingSafeEqual(macOf(key, body), given);
      if (first !== undefined && !keys.some(isAuthentic)) throw rejected(mac === '');
      const job = JSON.parse(body) as PublishJob;
      if (first !== undefined && runId !== undefined && job.runId !== runId) throw rejected(false);
      return job;
    },
  };
}

/** An object that waybill stored in Redis as JSON; null if another program has overwritten it. */
export function storedObject(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

/**
 * The job of an ended run, with or without a valid MAC. Its only use is to remove its archive, by a name that
 * shared staging checks. null if the text is not a JSON object.
 */
export function endedJob(text: string): PublishJob | null {
  return storedObject(text) as PublishJob | null;
}

/** The keys of `server.queue.signing_key_envs`. Throws `secrets_invalid` if one is missing or too short. */
export function signingKeys(names: readonly string[], secrets: Pick<Secrets, 'require'>): string[] {
  return names.map((name) => {
    const key = secrets.require(name, 'server.queue');
    if (key.length >= minKeyCharacters) return key;
    throw new WaybillError(
      'secrets_invalid',
      `the value of ${name} has fewer than ${minKeyCharacters} characters`,
      { hint: 'make a key with: openssl rand -hex 32' },
    );
  });
}

function rejected(isMissing: boolean): WaybillError {
  const what = isMissing ? 'is not signed' : 'has a signature that no key of this host made for it';
  return new WaybillError('job_rejected', `the job of the run in Redis ${what}; it was not run`, {
    hint: 'give all hosts the same server.queue.signing_key_envs; if they have, find out which program changed Redis; then upload the bundle again',
  });
}
