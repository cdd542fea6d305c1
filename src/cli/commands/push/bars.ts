import type { Output } from '../../output.ts';
import { progressBar } from '../../progress.ts';

/** One bar at a time: for the bytes that are measured, and for those that are sent. */
export interface Bars {
  /** Ends the bar that is shown and begins one for so many bytes. */
  begin: (bytes: number) => void;
  isBegun: () => boolean;
  onBytes: (count: number) => void;
  /** Makes room for a line; the next bytes show the bar again, as far as it was. */
  pause: () => void;
  /** Ends the bar that is shown; it is as if none had begun. */
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
