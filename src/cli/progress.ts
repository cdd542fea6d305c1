import { systemClock } from '../core/clock.ts';
import { formatDuration, formatSize } from '../core/settings/units.ts';
import type { Progress } from '../core/publish/results/result.ts';

export interface ProgressBar {
  onProgress: (progress: Progress) => void;
  /** So many bytes more are to come. */
  expect: (bytes: number) => void;
  /** For work of unknown length: shows how much was read, without a bar. */
  onBytes: (count: number) => void;
  stop: () => void;
}

/** Work shorter than this shows no bar, in milliseconds. */
const quickMs = 400;
/** A pace of less than this is a guess. */
const soonestMs = 500;

/**
 * How long it will take at the pace since `begun`, as people read it; as long as that says nothing, nothing.
 * Not by the pace of the last updates, as the bar's package tells it: a connection takes bytes in bursts, and
 * between two of one burst nothing is ever left. Pure.
 */
export function timeLeft(
  { done, total, nowMs }: { done: number; total: number; nowMs: number },
  begun: { done: number; atMs: number },
): string {
  const [came, tookMs] = [done - begun.done, nowMs - begun.atMs];
  if (came <= 0 || tookMs < soonestMs || done >= total) return '';
  const leftMs = (tookMs / came) * (total - done);
  return `${formatDuration(Math.ceil(leftMs / 1000) * 1000)} left`;
}

/** A progress bar on stderr if that is a terminal; otherwise nothing. */
export function progressBar(isWanted: boolean): ProgressBar {
  const nothing = (): void => undefined;
  if (!isWanted || !process.stderr.isTTY)
    return { onProgress: nothing, expect: nothing, onBytes: nothing, stop: nothing };
  let total = 0;
  let done = 0;
  let bar: { update: () => void; stop: () => void } | null = null;
  let isStopped = false;
  let isShown = false;
  let isLong = false;
  const show = (): void => {
    // Work may take long before anything is known of it: the bar comes with the first that is.
    if (!isLong || isShown || isStopped || total + done === 0) return;
    isShown = true;
    void import('cli-progress').then(({ default: { SingleBar, Presets } }) => {
      if (isStopped) return;
      const format =
        total === 0 ? '{done} read, {duration_formatted}' : '{bar} {percentage}%  {done} of {all}  {left}';
      const single = new SingleBar(
        { stream: process.stderr, clearOnComplete: true, hideCursor: true, format },
        Presets.shades_classic,
      );
      const begun = { done, atMs: systemClock.monotonic() };
      const payload = (): object => ({
        done: formatSize(done),
        all: formatSize(total),
        left: timeLeft({ done, total, nowMs: systemClock.monotonic() }, begun),
      });
      single.start(Math.max(total, 1), done, payload());
      bar = {
        update: () => {
          if (total > 0) single.setTotal(total);
          single.update(done, payload());
        },
        stop: () => single.stop(),
      };
    });
  };
  const update = (): void => {
    show();
    bar?.update();
  };
  const quick = systemClock.timeout(quickMs, () => {
    isLong = true;
    show();
  });
  // Restores the cursor and line wrapping of the terminal however the process ends.
  const stop = (): void => {
    isStopped = true;
    quick.cancel();
    process.off('exit', stop);
    bar?.stop();
    bar = null;
  };
  process.on('exit', stop);
  const onBytes = (count: number): void => {
    done += count;
    update();
  };
  const expect = (bytes: number): void => {
    total += bytes;
    update();
  };
  return {
    expect,
    onProgress(progress) {
      if (progress.type === 'planned') expect(progress.bytes);
      else if (progress.type === 'bytes') onBytes(progress.count);
    },
    onBytes,
    stop,
  };
}
