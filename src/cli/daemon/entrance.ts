import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';

/** Holds requests back until the program is ready for them. */
export interface Entrance {
  listener: RequestListener;
  /** Hands the held requests and all further ones to `listener`. */
  open(listener: RequestListener): void;
}

/**
 * Once open, requests are handed on at once: one that turns out to be no HTTP is refused in the same turn, by
 * an application that knows it already. One that was refused while it was held is not handed on.
 */
export function newEntrance(): Entrance {
  let opened: RequestListener | null = null;
  const held: [IncomingMessage, ServerResponse][] = [];
  return {
    listener: (req, res) => {
      if (opened === null) held.push([req, res]);
      else opened(req, res);
    },
    open: (listener) => {
      opened = listener;
      for (const [req, res] of held.splice(0)) if (!res.headersSent) listener(req, res);
    },
  };
}
