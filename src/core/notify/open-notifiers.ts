import type { Clock } from '../clock.ts';
import type { NotifierConfig } from '../config/config.ts';
import type { Secrets } from '../secrets.ts';
import { WaybillError } from '../errors.ts';
import { finding, type Finding } from '../finding.ts';
import type { Log } from '../log.ts';
import type { OpenNotifier } from './notifier.ts';
import { parseSigningSecret } from './signature.ts';
import type { Sink } from './sink.ts';

/**
 * The sinks of configured notifiers; nothing is connected to yet. Throws `secrets_invalid` where a secret is
 * missing or of the wrong form.
 */
export async function openNotifiers(
  configs: readonly NotifierConfig[],
  context: { secrets: Secrets; log: Log; clock: Clock },
): Promise<{ notifiers: OpenNotifier[]; warnings: Finding[] }> {
  const warnings: Finding[] = [];
  const notifiers: OpenNotifier[] = [];
  for (const config of configs) notifiers.push({ config, sink: await openSink(config, context, warnings) });
  return { notifiers, warnings };
}

/** Each sink is loaded when it is first needed: most runs need none. */
async function openSink(
  config: NotifierConfig,
  { secrets, log, clock }: { secrets: Secrets; log: Log; clock: Clock },
  warnings: Finding[],
): Promise<Sink> {
  const neededBy = `notifier "${config.id}"`;
  switch (config.kind) {
    case 'log': {
      const { logSink } = await import('./sinks/log.ts');
      return logSink(log);
    }
    case 'file': {
      const { fileSink } = await import('./sinks/file.ts');
      return fileSink(config.path);
    }
    case 'webhook': {
      const { webhookSink } = await import('./sinks/webhook.ts');
      const { keys, isPlain } = parseSigningSecret(
        secrets.require(config.secretEnv, neededBy),
        config.secretEnv,
      );
      if (isPlain)
        warnings.push(
          finding(
            'warning',
            'plain_signing_secret',
            `the signing secret ${config.secretEnv} of ${neededBy} does not begin with whsec_: its text itself is the key, which receivers must know`,
          ),
        );
      const { url, timeoutMs, allowAddresses } = config;
      return webhookSink({ url, keys, timeoutMs, allowAddresses, clock });
    }
    case 'redis': {
      const url = secrets.require(config.redisUrlEnv, neededBy);
      if (!URL.canParse(url) || !/^rediss?:$/.test(new URL(url).protocol))
        throw new WaybillError(
          'secrets_invalid',
          `the secret ${config.redisUrlEnv}, needed by ${neededBy}, is not a URL of Redis`,
          { hint: 'it looks like redis://user:password@host:6379/0, or rediss:// for TLS' },
        );
      const { redisSink } = await import('./sinks/redis.ts');
      return redisSink({ url, channel: config.channel, timeoutMs: config.timeoutMs });
    }
  }
}
