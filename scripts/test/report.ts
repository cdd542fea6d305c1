import type { FileResult } from './run-file.ts';

export interface Progress {
  started: (file: string) => void;
  ended: (result: FileResult) => void;
  close: () => void;
}

/**
 * One line for each file that has ended, and below it what failed there: a log may be cut, or read before its
 * end. On a terminal also a line below all that says what is running.
 */
export function report(total: number, stream: NodeJS.WriteStream): Progress {
  const running = new Set<string>();
  let [ended, failed] = [0, 0];
  const clear = (): void => {
    if (stream.isTTY) stream.write('\r\u001b[K');
  };
  const draw = (): void => {
    if (!stream.isTTY || running.size === 0) return;
    const failures = failed > 0 ? `, ${failed} failed` : '';
    const names = [...running].map((file) => file.replace(/^test\//, '').replace(/\.test\.ts$/, ''));
    stream.write(`[${ended} of ${total} files${failures}] ${names.join(', ')}`.slice(0, stream.columns - 1));
  };
  return {
    started(file) {
      running.add(file);
      clear();
      draw();
    },
    ended(result) {
      running.delete(result.file);
      ended += 1;
      if (result.failures.length > 0) failed += 1;
      clear();
      stream.write(`${lineOf(result)}\n${failuresOf(result)}`);
      draw();
    },
    close: clear,
  };
}

function failuresOf({ failures, stderr, exit }: FileResult): string {
  if (failures.length === 0) return '';
  const told = failures.map(({ name, detail }) => `${name}${detail === '' ? '' : `\n${indented(detail)}`}\n`);
  if (stderr !== '') told.push(`what it wrote to stderr (${exit}):\n${indented(stderr)}\n`);
  return told.map((what) => indented(what)).join('\n') + '\n';
}

function indented(text: string): string {
  return text.trimEnd().replaceAll(/^(?=.)/gm, '    ');
}

function lineOf({ file, passed, failures, skipped, ms }: FileResult): string {
  const mark = failures.length > 0 ? 'FAIL' : passed === 0 && skipped.length > 0 ? 'skip' : 'ok  ';
  const counts = [
    `${passed} passed`,
    ...(failures.length > 0 ? [`${failures.length} failed`] : []),
    ...(skipped.length > 0 ? [`${skipped.length} skipped`] : []),
  ];
  return `${mark}  ${file.padEnd(52)} ${counts.join(', ').padStart(14)} ${`${(ms / 1000).toFixed(1)} s`.padStart(9)}`;
}
