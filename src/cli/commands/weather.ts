import { once } from 'node:events';
import { serveWeather } from '../daemon/weather.ts';
import { asWaybillError } from '../../core/errors.ts';
import { describeFinding } from '../../core/finding.ts';
import { newRedaction } from '../../core/redaction.ts';
import { weatherLine, weatherLog } from '../weather-log.ts';

export interface WeatherOptions {
  /** Else READER_CONFIG, else config.yml. */
  config?: string;
  verbose: boolean;
}

/**
 * `waybill weather`: until SIGINT or SIGTERM; a second signal ends the process at once. A failure to start is
 * one line, and 1.
 */
export async function readWeather({ config, verbose }: WeatherOptions): Promise<number> {
  const redaction = newRedaction();
  const log = weatherLog(redaction, { verbose });
  const stop = new AbortController();
  const ask = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) process.exit(signal === 'SIGINT' ? 130 : 143);
    log.info({ signal }, 'stopping; once more to end at once');
    stop.abort();
  };
  process.on('SIGINT', ask).on('SIGTERM', ask);
  try {
    const served = await serveWeather({
      configFile: config ?? namedByEnvironment() ?? 'config.yml',
      log,
      env: process.env,
      onSecrets: (values) => redaction.add(values),
    });
    if (!stop.signal.aborted) await once(stop.signal, 'abort');
    await served.close();
    return 0;
  } catch (thrown) {
    const line = weatherLine(reasonOf(thrown));
    process.stderr.write(`${redaction.clean(line)}\n`);
    return 1;
  } finally {
    process.off('SIGINT', ask).off('SIGTERM', ask);
  }
}

function namedByEnvironment(): string | undefined {
  const named = process.env['READER_CONFIG'];
  return named === '' ? undefined : named;
}

function reasonOf(thrown: unknown): string {
  const { message, hint, findings } = asWaybillError(thrown);
  return [message, ...findings.map(describeFinding), ...(hint === undefined ? [] : [hint])].join('; ');
}
