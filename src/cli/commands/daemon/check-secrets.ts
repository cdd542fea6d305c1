import { resolveAdminToken, resolveTokens } from '../../../api/http/auth.ts';
import { resolvePublishers } from '../../../api/publishers/publishers.ts';
import type { Config } from '../../../core/config/config.ts';
import { systemClock } from '../../../core/lib/clock.ts';
import { type Finding, finding, WaybillError } from '../../../core/lib/errors.ts';
import { silentLog } from '../../../core/lib/log.ts';
import type { Secrets } from '../../../core/lib/secrets.ts';
import { openNotifiers, sinkKindOf } from '../../../core/notify/sink-kinds.ts';
import { readSigningKey } from '../../../core/publish/outputs.ts';
import { parseExportHeaders } from '../../../core/tracing/environment.ts';
import { consoleSettings, metricsToken } from '../../daemon/access.ts';

/* Finds secrets that are set, but that the daemon or a run would refuse. Missing secrets are skipped. */

interface SecretCheck {
  /** The secrets that the check needs. null if the setting is missing. */
  names: readonly (string | null)[];
  /** Throws `secrets_invalid` or `signing_key_invalid`. */
  run: () => unknown;
}

/**
 * Makes the same checks as the start of the daemon for all secrets that are set, without connecting to
 * anything. Throws `secrets_invalid` or `signing_key_invalid`, with everything that is wrong. With
 * `isProbed`, skips the secrets that the probes check.
 */
export async function requireUsableSecrets(
  config: Config,
  secrets: Secrets,
  { isProbed }: { isProbed: boolean },
): Promise<void> {
  const own = [...accessChecks(config, secrets), ...keyChecks(config, secrets)];
  const errors: WaybillError[] = [];
  for (const { names, run } of isProbed ? own : [...own, ...serviceChecks(config, secrets)]) {
    if (names.some((name) => name === null || secrets.get(name) === undefined)) continue;
    try {
      await run();
    } catch (error) {
      if (!(error instanceof WaybillError)) throw error;
      // Two checks may fail because of the same secret.
      if (!errors.some(({ message }) => message === error.message)) errors.push(error);
    }
  }
  const [first] = errors;
  if (first === undefined) return;
  if (errors.length === 1) throw first;
  throw new WaybillError('secrets_invalid', `${errors.length} secrets cannot be used`, {
    hint: 'correct each of them, and run this command again',
    findings: errors.map(asFinding),
  });
}

function asFinding({ message, hint }: WaybillError): Finding {
  return finding('error', 'secret_invalid', hint === undefined ? message : `${message}; ${hint}`);
}

/** Checks tokens and console sessions. */
function accessChecks(config: Config, secrets: Secrets): SecretCheck[] {
  const { metrics, console, adminTokenEnv, tokenKeysEnv } = config.server;
  const uploadTokens = config.uploadTokens.filter(({ valueEnv }) => secrets.get(valueEnv) !== undefined);
  return [
    { names: [], run: () => resolveTokens(uploadTokens, secrets) },
    // Also compares the admin token with the upload tokens.
    { names: [adminTokenEnv], run: () => resolveAdminToken({ ...config, uploadTokens }, secrets) },
    { names: [metrics.tokenEnv], run: () => metricsToken(config, secrets) },
    { names: [console.sessionKeyEnv], run: () => consoleSettings(config, secrets) },
    { names: [tokenKeysEnv], run: () => resolvePublishers(config, secrets, new Uint8Array(32)) },
  ];
}

/** Checks the keys that outputs and jobs are signed with. */
function keyChecks({ pipelines, server: { queue } }: Config, secrets: Secrets): SecretCheck[] {
  const destinations = pipelines.flatMap((pipeline) => pipeline.destinations);
  const ofOutputs = destinations.map(({ id, outputs: { signature = null } }) => ({
    names: [signature?.keyEnv ?? null],
    run: () => signature && readSigningKey(signature.keyEnv, secrets, id),
  }));
  const ofJobs = (queue.driver === 'bullmq' ? queue.signingKeyEnvs : []).map((name) => ({
    names: [name],
    run: async () => {
      const { signingKeys } = await import('../../../workers/bullmq/job-seal.ts');
      return signingKeys([name], secrets);
    },
  }));
  return [...ofOutputs, ...ofJobs];
}

/** Checks the URLs of other services, and the secrets that they require. */
function serviceChecks({ server, tracing, notifiers, databases }: Config, secrets: Secrets): SecretCheck[] {
  const { queue } = server;
  const headersEnv = tracing?.headersEnv ?? null;
  const ofTracing = {
    names: [headersEnv],
    run: () => headersEnv && parseExportHeaders(secrets.require(headersEnv, 'tracing'), headersEnv),
  };
  const ofQueue = {
    names: [queue.driver === 'bullmq' ? queue.redisUrlEnv : null],
    run: async () => {
      const { redisServer } = await import('../../../workers/bullmq/redis-client.ts');
      return queue.driver === 'bullmq' && redisServer(queue, secrets);
    },
  };
  const ofNotifiers = notifiers.map((notifier) => ({
    names: sinkKindOf(notifier).secrets(notifier),
    run: async () => {
      const opened = await openNotifiers([notifier], { secrets, log: silentLog, clock: systemClock });
      await Promise.all(opened.notifiers.map(({ sink }) => sink.close()));
    },
  }));
  const ofDatabases = databases.map((database) => ({
    names: [database.driver === 'postgres' ? database.urlEnv : null],
    run: async () => {
      const { openDatabase } = await import('../../../weather/database/open-database.ts');
      const opened = await openDatabase(database, { secrets, deadlineMs: 1000 });
      await opened.close();
    },
  }));
  return [ofTracing, ofQueue, ...ofNotifiers, ...ofDatabases];
}
