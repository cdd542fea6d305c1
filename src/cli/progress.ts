import type { Progress } from '../core/publish/result.ts';

export interface ProgressBar {
  onProgress: (progress: Progress) => void;
  onBytes: (count: number) => void;
  stop: () => void;
}

/** Work shorter than this shows no bar, in milliseconds. */
const quickMs = 400;

/** A bar on standard error while bytes move, on a terminal only; elsewhere nothing at all. */
export function progressBar(isWanted: boolean): ProgressBar {
  const nothing = (): void => undefined;
  if (!isWanted || !process.stderr.isTTY) return { onProgress: nothing, onBytes: nothing, stop: nothing };
  let total = 0;
  let done = 0;
  let bar: { update: (value: number) => void; setTotal: (value: number) => void; stop: () => void } | null =
    null;
  let isStopped = false;
  const show = setTimeout(() => {
    void import('cli-progress').then(({ default: { SingleBar, Presets } }) => {
      if (isStopped || total === 0) return;
      const single = new SingleBar(
        {
          stream: process.stderr,
          clearOnComplete: true,
          hideCursor: true,
          format: '{bar} {percentage}%  {done} of {all} MiB  {eta_formatted} left',
          formatValue: (value: number) => String(value),
        },
        Presets.shades_classic,
      );
      single.start(total, done, { done: mebibytes(done), all: mebibytes(total) });
      bar = {
        update: (value) => single.update(value, { done: mebibytes(value), all: mebibytes(total) }),
        setTotal: (value) => single.setTotal(value),
        stop: () => single.stop(),
      };
    });
  }, quickMs);
  const onBytes = (count: number): void => {
    done += count;
    bar?.update(done);
  };
  return {
    onProgress(progress) {
      if (progress.type === 'planned') {
        total += progress.bytes;
        bar?.setTotal(total);
      } else if (progress.type === 'bytes') onBytes(progress.count);
    },
    onBytes(count) {
      total = Math.max(total, done + count);
      onBytes(count);
    },
    stop() {
      isStopped = true;
      clearTimeout(show);
      bar?.stop();
    },
  };
}

function mebibytes(bytes: number): string {
  return (bytes / (1 << 20)).toFixed(0);
}
