import { performance } from 'node:perf_hooks';

// The system clock counts milliseconds. A finer clock that never jumps supplies the rest; it is set by the
// first if they drift apart.
const mostDriftMs = 2;
let origin = performance.timeOrigin;

/** Now, as ISO 8601 in UTC with microseconds: `2026-11-20T02:04:34.120417Z`. */
export function isoMicroseconds(): string {
  const wall = Date.now();
  if (Math.abs(origin + performance.now() - wall) > mostDriftMs) origin = wall - performance.now();
  const microseconds = Math.round((origin + performance.now()) * 1000);
  const fraction = String(microseconds % 1000).padStart(3, '0');
  return `${new Date(Math.floor(microseconds / 1000)).toISOString().slice(0, -1)}${fraction}Z`;
}
