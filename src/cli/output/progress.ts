import type { SingleBar } from 'cli-progress';
import type { Upload } from '../../client/client.ts';
import { systemClock, type Timer } from '../../core/lib/clock.ts';
import { formatDuration, formatSize } from '../../core/lib/settings/sizes-and-durations.ts';
import type { Progress } from '../../core/publish/results/result.ts';
import type { Output } from './output.ts';

export interface ProgressBar {
  onProgress: (progress: Progress) => void;
  /** Adds to the total number of bytes. */
  expect: (bytes: number) => void;
  /** Shows how many bytes have been read, if the total is unknown. There is no bar in this case. */
  onBytes: (count: number) => void;
  stop: () => void;
}

/** If everything is done within this many milliseconds, no bar is shown. */
const quickMs = 400;
/** In milliseconds. It is too early to estimate the speed before this. */
const minPaceMs = 500;

/**
 * Returns the remaining time at the average speed so far, as text. Returns an empty string if it is too early
 * to tell. The progress bar package only looks at the most recent updates, but connections transfer bytes in
 * bursts, so its estimate keeps dropping to zero.
 */
export function timeLeft(
  { done, total, nowMs }: { done: number; total: number; nowMs: number },
  begun: { done: number; atMs: number },
): string {
  const doneSince = done - begun.done;
  const durationMs = nowMs - begun.atMs;
  if (doneSince <= 0 || durationMs < minPaceMs || done >= total) return '';
  const leftMs = (durationMs / doneSince) * (total - done);
  return `${formatDuration(Math.ceil(leftMs / 1000) * 1000)} left`;
}

/** Returns the average speed since the bar was shown. Returns an empty string if it is too early to tell. */
function rateText(bytes: number, durationMs: number): string {
  return durationMs < minPaceMs ? '' : `${formatSize(Math.round((bytes / durationMs) * 1000))}/s`;
}

/**
 * Returns the format of the bar. Narrow terminals do not show the speed, and only wide ones show the name.
 */
export function barFormat(total: number, width: number): { format: string; barsize: number } {
  if (total === 0) return { format: '{name}{done} read, {duration_formatted}', barsize: 0 };
  // Space for the percentage, "1023.9 MiB of 1023.9 MiB", and "59m 59s left".
  const reservedColumns = 48 + (width < 80 ? 0 : 14) + (width < 100 ? 0 : 22);
  const rate = width < 80 ? '' : '{rate}  ';
  const format = `${width < 100 ? '' : '{name}'}{bar} {percentage}%  {done} of {all}  ${rate}{left}`;
  return { format, barsize: Math.max(6, Math.min(30, width - reservedColumns)) };
}

/**
 * Returns a progress bar on stderr, or one that does nothing if stderr is not a terminal.
 *
 * @param name The pipeline or file that the progress is about.
 */
export function progressBar(isWanted: boolean, name = ''): ProgressBar {
  const nothing = (): void => undefined;
  if (!isWanted || !process.stderr.isTTY)
    return { onProgress: nothing, expect: nothing, onBytes: nothing, stop: nothing };
  return new TerminalBar(name);
}

/**
 * `quick` means that the work has just begun. `unknown` means that it takes longer, but there are no numbers
 * to show yet.
 */
type BarState = 'quick' | 'unknown' | 'shown' | 'stopped';

class TerminalBar implements ProgressBar {
  readonly #name: string;
  readonly #timer: Timer;
  #state: BarState = 'quick';
  #bar: SingleBar | null = null;
  #total = 0;
  #done = 0;
  /** When the bar was shown, and how many bytes had already been transferred. */
  #begun = { done: 0, atMs: 0 };

  constructor(name: string) {
    const short = name.length > 20 ? `${name.slice(0, 19)}…` : name;
    this.#name = name === '' ? '' : `${short}  `;
    this.#timer = systemClock.timeout(quickMs, () => {
      this.#state = 'unknown';
      this.#showIfKnown();
    });
    process.on('exit', this.stop);
  }

  readonly onProgress = (progress: Progress): void => {
    if (progress.type === 'planned') this.expect(progress.bytes);
    else if (progress.type === 'bytes') this.onBytes(progress.count);
  };

  readonly expect = (bytes: number): void => {
    this.#total += bytes;
    this.#update();
  };

  readonly onBytes = (count: number): void => {
    this.#done += count;
    this.#update();
  };

  /**
   * Restores the cursor and line wrapping of the terminal. This has to be called however the process ends.
   */
  readonly stop = (): void => {
    this.#state = 'stopped';
    this.#timer.cancel();
    process.off('exit', this.stop);
    this.#bar?.stop();
    this.#bar = null;
  };

  #update(): void {
    this.#showIfKnown();
    if (this.#bar === null) return;
    if (this.#total > 0) this.#bar.setTotal(this.#total);
    this.#bar.update(this.#done, this.#payload());
  }

  #showIfKnown(): void {
    if (this.#state !== 'unknown' || this.#total + this.#done === 0) return;
    this.#state = 'shown';
    void import('cli-progress').then((module) => this.#show(module.default));
  }

  #show({ SingleBar, Presets }: typeof import('cli-progress')): void {
    if (this.#state === 'stopped') return;
    const width = process.stderr.columns > 0 ? process.stderr.columns : 80;
    const { format, barsize } = barFormat(this.#total, width);
    this.#bar = new SingleBar(
      { stream: process.stderr, clearOnComplete: true, hideCursor: true, format, barsize },
      Presets.shades_classic,
    );
    this.#begun = { done: this.#done, atMs: systemClock.monotonic() };
    this.#bar.start(Math.max(this.#total, 1), this.#done, this.#payload());
  }

  #payload(): object {
    const done = this.#done;
    const total = this.#total;
    const nowMs = systemClock.monotonic();
    return {
      name: this.#name,
      done: formatSize(done),
      all: formatSize(total),
      rate: rateText(done - this.#begun.done, nowMs - this.#begun.atMs),
      left: timeLeft({ done, total, nowMs }, this.#begun),
    };
  }
}

/** Shows progress bars for measuring and sending files, one at a time. */
export interface Bars {
  /** Shows a new bar for this many bytes. It replaces the current one. */
  begin: (bytes: number) => void;
  isBegun: () => boolean;
  onBytes: (count: number) => void;
  /** Hides the bar before a line is printed. It reappears with the next progress. */
  pause: () => void;
  /** Removes the bar. */
  stop: () => void;
}

export function createBars(output: Pick<Output, 'isJson'>): Bars {
  let bar = progressBar(!output.isJson);
  let total = 0;
  let done = 0;
  let isPaused = false;
  const show = (): void => {
    bar.stop();
    bar = progressBar(!output.isJson);
    bar.expect(total);
    bar.onBytes(done);
    isPaused = false;
  };
  return {
    begin(bytes) {
      [total, done] = [bytes, 0];
      show();
    },
    isBegun: () => total > 0,
    onBytes(count) {
      done += count;
      if (isPaused) show();
      else bar.onBytes(count);
    },
    pause() {
      bar.stop();
      isPaused = true;
    },
    stop() {
      bar.stop();
      [total, isPaused] = [0, false];
    },
  };
}

/**
 * Returns an upload that shows a progress bar while it is sent. This also works if only part of it needs to
 * be sent.
 */
export function withBars<T extends Upload>(upload: T, bars: Bars): T {
  const { open, pieces, parts, size } = upload;
  const bytes = pieces?.readBytes ?? size ?? 0;
  return {
    ...upload,
    open() {
      bars.begin(bytes);
      return open();
    },
    ...(pieces === undefined
      ? {}
      : {
          pieces: {
            ...pieces,
            open(from: number, onRead: (bytes: number) => void) {
              if (!bars.isBegun()) bars.begin(bytes);
              return pieces.open(from, onRead);
            },
          },
        }),
    ...(parts === undefined
      ? {}
      : { parts: { ...parts, only: (digests: ReadonlySet<string>) => withBars(parts.only(digests), bars) } }),
  };
}
