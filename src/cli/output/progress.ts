import type { SingleBar } from 'cli-progress';
import type { Upload } from '../../client/client.ts';
import { systemClock, type Timer } from '../../core/lib/clock.ts';
import { formatDuration, formatSize } from '../../core/lib/settings/units.ts';
import type { Progress } from '../../core/publish/results/result.ts';
import type { Output } from './output.ts';

export interface ProgressBar {
  onProgress: (progress: Progress) => void;
  /** Adds bytes to the expected total. */
  expect: (bytes: number) => void;
  /** Shows the number of bytes read, without a bar, for work of unknown length. */
  onBytes: (count: number) => void;
  stop: () => void;
}

/** Work that takes less than this many milliseconds shows no bar. */
const quickMs = 400;
/** Over a shorter time, the pace would be a guess. */
const minPaceMs = 500;

/**
 * Returns the remaining time at the average pace since `begun`, as text; empty while the pace is still a
 * guess. The progress bar package would use the pace of its last updates. Connections take bytes in bursts,
 * so that estimate drops to zero between two updates of a burst.
 */
export function timeLeft(
  { done, total, nowMs }: { done: number; total: number; nowMs: number },
  begun: { done: number; atMs: number },
): string {
  const [doneSince, durationMs] = [done - begun.done, nowMs - begun.atMs];
  if (doneSince <= 0 || durationMs < minPaceMs || done >= total) return '';
  const leftMs = (durationMs / doneSince) * (total - done);
  return `${formatDuration(Math.ceil(leftMs / 1000) * 1000)} left`;
}

/** Returns the bytes per second since the bar began; empty while that would be a guess. */
function rateText(bytes: number, durationMs: number): string {
  return durationMs < minPaceMs ? '' : `${formatSize(Math.round((bytes / durationMs) * 1000))}/s`;
}

/**
 * Returns a bar format that fits the width: narrow terminals show no rate, and only wide ones show the name.
 */
export function barFormat(total: number, width: number): { format: string; barsize: number } {
  if (total === 0) return { format: '{name}{done} read, {duration_formatted}', barsize: 0 };
  // The percentage, "1023.9 MiB of 1023.9 MiB", "59m 59s left" and the spaces between them.
  const taken = 48 + (width < 80 ? 0 : 14) + (width < 100 ? 0 : 22);
  const rate = width < 80 ? '' : '{rate}  ';
  const format = `${width < 100 ? '' : '{name}'}{bar} {percentage}%  {done} of {all}  ${rate}{left}`;
  return { format, barsize: Math.max(6, Math.min(30, width - taken)) };
}

/**
 * Returns a progress bar on stderr if that is a terminal, otherwise a no-op.
 *
 * @param name The pipeline or file that the bytes belong to.
 */
export function progressBar(isWanted: boolean, name = ''): ProgressBar {
  const nothing = (): void => undefined;
  if (!isWanted || !process.stderr.isTTY)
    return { onProgress: nothing, expect: nothing, onBytes: nothing, stop: nothing };
  return new TerminalBar(name);
}

/**
 * `quick`: the work has just begun. `unknown`: it is taking longer, but there is no size or byte count to
 * display.
 */
type BarState = 'quick' | 'unknown' | 'shown' | 'stopped';

class TerminalBar implements ProgressBar {
  readonly #name: string;
  readonly #timer: Timer;
  #state: BarState = 'quick';
  #bar: SingleBar | null = null;
  #total = 0;
  #done = 0;
  /** When the bar was first shown, and the bytes done until then. */
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

  /** Restores the terminal's cursor and line wrapping. Called no matter how the process ends. */
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
    const [done, total, nowMs] = [this.#done, this.#total, systemClock.monotonic()];
    return {
      name: this.#name,
      done: formatSize(done),
      all: formatSize(total),
      rate: rateText(done - this.#begun.done, nowMs - this.#begun.atMs),
      left: timeLeft({ done, total, nowMs }, this.#begun),
    };
  }
}

/** Shows one bar at a time, for the bytes being measured or sent. */
export interface Bars {
  /** Replaces the current bar with a new one for this many bytes. */
  begin: (bytes: number) => void;
  isBegun: () => boolean;
  onBytes: (count: number) => void;
  /** Hides the bar to make room for a line. The next bytes show it again with its previous progress. */
  pause: () => void;
  /** Removes the current bar and resets the state. */
  stop: () => void;
}

export function newBars(output: Pick<Output, 'isJson'>): Bars {
  let bar = progressBar(!output.isJson);
  let [total, done, isPaused] = [0, 0, false];
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

/** Returns the same upload with a progress bar for its bytes, even if only part of it is sent. */
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
