import { formatSize } from '../core/settings/units.ts';
import type { Progress } from '../core/publish/result.ts';

export interface ProgressBar {
  onProgress: (progress: Progress) => void;
  /** For work whose length is not known beforehand: what it has read is counted, without a bar. */
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
  let bar: { update: () => void; stop: () => void } | null = null;
  let isStopped = false;
  const show = setTimeout(() => {
    void import('cli-progress').then(({ default: { SingleBar, Presets } }) => {
      if (isStopped || total + done === 0) return;
      const format =
        total === 0
          ? '{done} read, {duration_formatted}'
          : '{bar} {percentage}%  {done} of {all}  {eta_formatted} left';
      const single = new SingleBar(
        { stream: process.stderr, clearOnComplete: true, hideCursor: true, format },
        Presets.shades_classic,
      );
      const told = (): object => ({ done: formatSize(done), all: formatSize(total) });
      single.start(Math.max(total, 1), done, told());
      bar = {
        update: () => {
          if (total > 0) single.setTotal(total);
          single.update(done, told());
        },
        stop: () => single.stop(),
      };
    });
  }, quickMs);
  // However the process ends, the terminal gets its cursor and its line wrapping back.
  const stop = (): void => {
    isStopped = true;
    clearTimeout(show);
    process.off('exit', stop);
    bar?.stop();
    bar = null;
  };
  process.on('exit', stop);
  const onBytes = (count: number): void => {
    done += count;
    bar?.update();
  };
  return {
    onProgress(progress) {
      if (progress.type === 'planned') {
        total += progress.bytes;
        bar?.update();
      } else if (progress.type === 'bytes') onBytes(progress.count);
    },
    onBytes,
    stop,
  };
}
