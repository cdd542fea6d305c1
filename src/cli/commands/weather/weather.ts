import { asWaybillError, describeFinding } from '../../../core/lib/errors.ts';
import {
  type Log,
  type LogControl,
  logControl,
  newRedaction,
  type Redaction,
} from '../../../core/lib/log.ts';
import { serveWeather } from '../../daemon/weather.ts';
import { isoMicroseconds, logLines } from '../../output/logger.ts';
import { outliveOtherSignals } from '../../process/daemon-process.ts';
import { listenForStop } from '../../process/stop-signal.ts';
import { configFileOf } from './config-file.ts';

export interface WeatherOptions {
  /** Defaults to READER_CONFIG, or to config.yml if that is not set. */
  config?: string | undefined;
  verbose: boolean;
}

/**
 * Implements `waybill weather`: runs until SIGINT or SIGTERM; a second signal ends the process immediately. A
 * startup failure is reported in one line, with exit code 1.
 */
export async function readWeather({ config, verbose }: WeatherOptions): Promise<number> {
  const redaction = newRedaction();
  const logging = logControl({ verbose });
  const log = weatherLog(redaction, logging);
  outliveOtherSignals(() =>
    log.warn({ signal: 'SIGHUP' }, 'the configuration is not read again; restart the daemon to apply it'),
  );
  const stop = listenForStop((signal) => log.info({ signal }, 'stopping; once more to end at once'));
  try {
    const served = await serveWeather({
      configFile: configFileOf(config),
      log,
      logging,
      env: process.env,
      onSecrets: (values) => redaction.add(values),
    });
    await stop.received;
    await served.close();
    return 0;
  } catch (thrown) {
    const line = weatherLine(reasonOf(thrown));
    process.stderr.write(`${redaction.clean(line)}\n`);
    return 1;
  } finally {
    stop.release();
  }
}

function reasonOf(thrown: unknown): string {
  const { code, message, hint, findings, cause } = asWaybillError(thrown);
  return [
    message,
    // Its message already says why.
    ...(code === 'config_unreadable' ? [] : causesOf(cause)),
    ...findings.map(describeFinding),
    ...(hint === undefined ? [] : [hint]),
  ].join('; ');
}

/** Returns the system's or database's messages without duplicates. */
function causesOf(cause: unknown): string[] {
  if (!(cause instanceof Error)) return [];
  const inner = cause instanceof AggregateError ? cause.errors : [cause.cause];
  const all = [cause.message, ...inner.flatMap((each) => causesOf(each))];
  return [...new Set(all.filter((message) => message !== ''))];
}

type Level = 'debug' | 'info' | 'warn' | 'error';

/**
 * Writes lines such as `2026/01/20 12:51:00.000123 weather: message key=value …` to stderr, for the levels
 * enabled at that time. No line contains a secret that `redaction` knows. Logging never throws, even if
 * stderr fails.
 */
function weatherLog(redaction: Redaction, logging: Pick<LogControl, 'shows'>): Log {
  // Lines logged in the same turn of the event loop are written together. The process writes the rest
  // before it exits.
  let waiting = '';
  const lines = logLines(2);
  const flush = (): void => {
    const text = waiting;
    waiting = '';
    if (text !== '') lines.write(redaction.clean(text));
  };
  process.once('exit', flush);
  const at =
    (level: Level) =>
    (fields: object, message: string): void => {
      if (!logging.shows(level)) return;
      const text = level === 'warn' || level === 'error' ? `${level}: ${message}` : message;
      if (waiting === '') setImmediate(flush);
      waiting += `${weatherLine(`${text}${describe(fields)}`)}\n`;
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
  };
}

/** Formats a log line with the current time. Joins the text's lines. */
function weatherLine(text: string): string {
  const now = isoMicroseconds();
  const stamp = `${dayOf(now.slice(0, 10))} ${now.slice(11, -1)}`;
  const isOneLine = !text.includes('\n') && !text.includes('\r');
  return `${stamp} weather: ${isOneLine ? text : text.replaceAll(/\s*[\r\n]+\s*/g, '; ')}`;
}

let today = { iso: '', slashed: '' };

function dayOf(iso: string): string {
  if (today.iso !== iso) today = { iso, slashed: iso.replaceAll('-', '/') };
  return today.slashed;
}

function describe(fields: object): string {
  let text = '';
  // Iterates over the keys, because creating pairs with Object.entries would be most of a line's cost.
  for (const key of Object.keys(fields) as (keyof typeof fields)[]) {
    const value: unknown = fields[key];
    if (value !== null && value !== undefined) text += ` ${String(key)}=${valueText(value)}`;
  }
  return text;
}

function valueText(value: unknown): string {
  if (typeof value === 'number') return String(value);
  const text =
    value instanceof Error ? causeText(value) : typeof value === 'string' ? value : JSON.stringify(value);
  return isPlain(text) ? text : JSON.stringify(text);
}

/** Reports whether text needs no quotes because it contains no space, quotation mark or equals sign. */
function isPlain(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code <= 0x20 || code === 0x22 || code === 0x3d) return false;
    if (code > 0x7e) return !/[\s"=]/.test(text);
  }
  return true;
}

/** Includes the cause, because the sentence for clients does not name the file or the statement. */
function causeText(error: Error): string {
  return error.cause instanceof Error ? `${error.message}: ${causeText(error.cause)}` : error.message;
}
