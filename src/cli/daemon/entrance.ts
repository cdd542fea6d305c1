import type { RequestListener } from 'node:http';

/** Holds requests back until the program is ready for them. */
export interface Entrance {
  listener: RequestListener;
  /** Hands the held requests and all further ones to `listener`. */
  open(listener: RequestListener): void;
}

export function newEntrance(): Entrance {
  let open: (listener: RequestListener) => void = () => undefined;
  const opened = new Promise<RequestListener>((resolve) => (open = resolve));
  return {
    listener: (req, res) => void opened.then((listener) => listener(req, res)),
    open: (listener) => open(listener),
  };
}
