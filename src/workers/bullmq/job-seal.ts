import { createHmac, timingSafeEqual } from 'node:crypto';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import type { PublishJob } from '../queue/job.ts';
import { asJob, jsonOf } from './shapes.ts';

/**
 * Converts jobs to text for Redis, where other programs might tamper with them. If keys are configured, the
 * text includes a MAC that covers the whole job: run id, pipeline, channel, bundle path, and the name, size,
 * and digest of the staged archive.
 */
export interface JobSeal {
  seal(job: PublishJob): string;
  /**
   * Parses the text. Throws a `job_rejected` error if it is not a job, if it belongs to a different run or
   * pipeline than `run`, or if keys are configured and none of them matches the MAC.
   */
  open(text: string, run?: { runId: string; pipelineId?: string }): PublishJob;
}

const sealed = /^(\{.*),"mac":"([0-9a-f]{64})"\}$/s;
const minKeyCharacters = 32;

/**
 * Signs with the first key, and accepts signatures made with any of them. Without keys, nothing is signed or
 * verified.
 */
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
    open: (text, run) => {
      const [, start, mac = ''] = sealed.exec(text) ?? [];
      const body = start === undefined ? text : `${start}}`;
      const receivedMac = Buffer.from(mac, 'hex');
      const isAuthentic = (key: string): boolean =>
        mac !== '' && timingSafeEqual(macOf(key, body), receivedMac);
      if (first !== undefined && !keys.some(isAuthentic)) throw unauthentic(mac === '');
      const job = asJob(jsonOf(body));
      if (job === null) throw unreadableError('job');
      const { runId = job.runId, pipelineId = job.pipelineId } = run ?? {};
      if (job.runId !== runId || job.pipelineId !== pipelineId) throw rejected('belongs to another run');
      return job;
    },
  };
}

/**
 * Parses the job of a run that has ended, even if its MAC is invalid. Returns null if the text is not a job.
 * The result is only used to remove the job's archive, and shared staging validates that name itself.
 */
export function parseUnverifiedJob(text: string): PublishJob | null {
  return asJob(jsonOf(text));
}

/** Creates the error for a run whose job or record was overwritten by another program. */
export function unreadableError(what: 'job' | 'record'): WaybillError {
  return new WaybillError('job_rejected', `the ${what} of the run in Redis is unreadable; it was not run`, {
    hint: 'find out which program changed Redis; then upload the bundle again',
  });
}

/**
 * Reads the keys listed in `server.queue.signing_key_envs`. Throws `secrets_invalid` if one is missing or too
 * short.
 */
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

function unauthentic(isMissing: boolean): WaybillError {
  return rejected(isMissing ? 'is not signed' : 'has a signature that no key of this host made for it');
}

function rejected(what: string): WaybillError {
  return new WaybillError('job_rejected', `the job of the run in Redis ${what}; it was not run`, {
    hint: 'give all hosts the same server.queue.signing_key_envs; if they have, find out which program changed Redis; then upload the bundle again',
  });
}
