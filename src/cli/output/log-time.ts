// The system clock counts milliseconds, and a jump of it must show.
const mostDriftMs = 2;

/** In milliseconds: the clock of the system, and a finer one that counts from anywhere and never jumps. */
interface Clocks {
  system: () => number;
  fine: () => number;
}

/**
 * Makes a clock of microseconds: the finer one, set by the system's if they drift apart. The system's is read
 * before and after it: a process that is held up between two readings has not drifted, and must not go back.
 */
export function microsecondClock({ system, fine }: Clocks, origin: number = system() - fine()): () => string {
  let second = NaN;
  let stamp = '';
  return () => {
    const earliest = system() - mostDriftMs;
    let now = origin + fine();
    const latest = system() + mostDriftMs;
    const drift = now - Math.min(Math.max(now, earliest), latest);
    origin -= drift;
    now -= drift;
    const microseconds = Math.round(now * 1000);
    // Most lines are of the second of the line before.
    if (Math.floor(microseconds / 1e6) !== second) {
      second = Math.floor(microseconds / 1e6);
      stamp = new Date(second * 1000).toISOString().slice(0, -4);
    }
    return `${stamp}${String(microseconds - second * 1e6).padStart(6, '0')}Z`;
  };
}

/** Now, as ISO 8601 in UTC with microseconds: `2026-11-20T02:04:34.120417Z`. */
export const isoMicroseconds = microsecondClock(
  { system: Date.now, fine: () => performance.now() },
  performance.timeOrigin,
);
