import type { FileResult } from './run-file.ts';

export interface Progress {
  started: (file: string) => void;
  ended: (result: FileResult) => void;
  close: () => void;
}

/** The interval for printing that the tests are still running, in milliseconds. Not used on a terminal. */
const heartbeatMs = 60_000;

/**
 * Reports progress. The failures of a file are printed as soon as it has ended, because the output might be
 * cut off later or read early. With verbose output, there is a line for each file. Otherwise, a terminal
 * shows which files are running, and anything else gets a line every minute.
 */
export function report(
  total: number,
  { stream, isVerbose }: { stream: NodeJS.WriteStream; isVerbose: boolean },
): Progress {
  const running = new Set<string>();
  let [ended, failed] = [0, 0];
  const state = (): string => {
    const failures = failed > 0 ? `, ${failed} failed` : '';
    const names = [...running].map((file) => file.replace(/^test\//, '').replace(/\.test\.ts$/, ''));
    return `[${ended} of ${total} files${failures}] ${names.join(', ')}`;
  };
  const clear = (): void => {
    if (stream.isTTY) stream.write('\r\u001b[K');
  };
  const draw = (): void => {
    if (stream.isTTY && running.size > 0) stream.write(state().slice(0, stream.columns - 1));
  };
  const heartbeat =
    stream.isTTY || isVerbose
      ? undefined
      : setInterval(() => stream.write(`${state()}\n`), heartbeatMs).unref();
  return {
    started(file) {
      running.add(file);
      clear();
      draw();
    },
    ended(result) {
      running.delete(result.file);
      ended += 1;
      const hasFailed = result.failures.length > 0;
      if (hasFailed) failed += 1;
      clear();
      if (hasFailed || isVerbose) stream.write(`${lineOf(result)}\n${failuresOf(result)}`);
      draw();
    },
    close() {
      clearInterval(heartbeat);
      clear();
    },
  };
}

/** Returns a table of the ten files that took the most processor time. */
export function maxExpensive(results: readonly FileResult[]): string {
  const cost = ({ processorMs, ms }: FileResult): number => processorMs ?? ms;
  const ten = results.toSorted((a, b) => cost(b) - cost(a)).slice(0, 10);
  const total = results.reduce((sum, result) => sum + cost(result), 0);
  return [
    `processor time of all files: ${seconds(total).trim()}; the ten most expensive, with their duration:`,
    ...ten.map((result) => `${seconds(cost(result))} ${seconds(result.ms)}  ${result.file}`),
  ].join('\n');
}

function failuresOf({ failures, stderr, exit }: FileResult): string {
  if (failures.length === 0) return '';
  const parts = failures.map(
    ({ name, detail }) => `${name}${detail === '' ? '' : `\n${indented(detail)}`}\n`,
  );
  if (stderr !== '') parts.push(`stderr of the file (${exit}):\n${indented(stderr)}\n`);
  return parts.map((part) => indented(part)).join('\n') + '\n';
}

function indented(text: string): string {
  return text.trimEnd().replaceAll(/^(?=.)/gm, '    ');
}

function lineOf({ file, passed, failures, skipped, ms, processorMs }: FileResult): string {
  const mark = failures.length > 0 ? 'FAIL' : passed === 0 && skipped.length > 0 ? 'skip' : 'ok  ';
  const cpu = processorMs === null ? '' : ` ${seconds(processorMs)} cpu`;
  const counts = [
    `${passed} passed`,
    ...(failures.length > 0 ? [`${failures.length} failed`] : []),
    ...(skipped.length > 0 ? [`${skipped.length} skipped`] : []),
  ];
  return `${mark}  ${file.padEnd(52)} ${counts.join(', ').padStart(14)} ${seconds(ms)}${cpu}`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`.padStart(9);
}
