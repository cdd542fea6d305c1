import type { Log } from '../core/log.ts';
import type { Redaction } from '../core/redaction.ts';

type Level = 'debug' | 'info' | 'warn' | 'error';

/** Lines of `2026/01/20 12:51:00.000123 weather: message key=value …` on stderr. No line holds a secret that `redaction` knows. */
export function weatherLog(redaction: Redaction, { verbose }: { verbose: boolean }): Log {
  const at =
    (level: Level) =>
    (fields: object, message: string): void => {
      const told = level === 'warn' || level === 'error' ? `${level}: ${message}` : message;
      process.stderr.write(redaction.clean(`${weatherLine(`${told}${describe(fields)}`, new Date())}\n`));
    };
  return {
    debug: verbose ? at('debug') : () => undefined,
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
  };
}

/** One line of the log, whatever the text holds. */
export function weatherLine(text: string, now: Date): string {
  const [date = '', time = ''] = now.toISOString().split('T');
  const micros = `${time.slice(0, -1)}${microsecondsBelowMilliseconds()}`;
  return `${date.replaceAll('-', '/')} ${micros} weather: ${text.replaceAll(/\s*[\r\n]+\s*/g, '; ')}`;
}

function describe(fields: object): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([key, value]) => ` ${key}=${valueText(value)}`)
    .join('');
}

function valueText(value: unknown): string {
  const text =
    value instanceof Error ? whyOf(value) : typeof value === 'string' ? value : JSON.stringify(value);
  return /[\s"=]/.test(text) ? JSON.stringify(text) : text;
}

/** With what lies beneath: the sentence for clients alone would not tell which file or statement it was. */
function whyOf(error: Error): string {
  return error.cause instanceof Error ? `${error.message}: ${whyOf(error.cause)}` : error.message;
}

function microsecondsBelowMilliseconds(): string {
  const micros = Math.floor((performance.timeOrigin + performance.now()) * 1000) % 1000;
  return String(micros).padStart(3, '0');
}
