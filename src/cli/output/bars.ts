import type { Upload } from '../../client/client.ts';
import type { Output } from './output.ts';
import { progressBar } from './progress.ts';

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

/** The same upload, and the same part of it, each with a bar for what is sent. */
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
