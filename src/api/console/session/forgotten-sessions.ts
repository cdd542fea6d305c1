import type { Clock } from '../../../core/clock.ts';
import type { Session } from './session-seal.ts';

/** So many are remembered; the first of them go, if so many log out before their sessions are over. */
const mostForgotten = 10_000;

/** Sessions that somebody has logged out of, until they would be over by themselves. */
export function forgottenSessions(clock: Pick<Clock, 'now'>): {
  add: (session: Pick<Session, 'id' | 'expiresAt'>) => void;
  has: (id: string) => boolean;
} {
  const ends = new Map<string, number>();
  const tidy = (): void => {
    const now = clock.now().getTime();
    for (const [id, end] of ends) if (end <= now) ends.delete(id);
    while (ends.size >= mostForgotten) ends.delete(ends.keys().next().value as string);
  };
  return {
    add: ({ id, expiresAt }) => {
      tidy();
      ends.set(id, expiresAt.getTime());
    },
    has: (id) => ends.has(id),
  };
}
