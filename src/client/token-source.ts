import type { Clock } from '../core/lib/clock.ts';

/** The body of a response to `POST v1/token`. */
export interface TokenAnswer {
  access_token: string;
  expires_in: number;
  publisher_id: string;
  pipelines?: unknown;
  scope?: unknown;
  subject?: unknown;
}

/** Sends a form to the daemon's `POST v1/token`, and returns the body of the response. */
export type ExchangeForm = (form: Readonly<Record<string, string>>) => Promise<TokenAnswer>;

/** A token that may change while the client is running. */
export interface TokenSource {
  /** Whether an expired token can be replaced with a new one. */
  readonly isRenewable: boolean;
  /** Returns the token to use for the next request. */
  value(exchange: ExchangeForm): Promise<string>;
  /** Called when the daemon has rejected a token. Returns true if there is a different one to try. */
  refused(value: string): boolean;
}

/** The rights of a token that was issued by the daemon, without the token itself. */
export interface IssuedToken {
  publisherId: string;
  /** The `sub` claim of the ID token. */
  subject: string | null;
  pipelines: readonly string[];
  scopes: readonly string[];
}

export interface IdTokenOptions {
  /** Returns an ID token. Called for every exchange, because the daemon accepts each of them only once. */
  idToken: () => Promise<string>;
  /** Whether `idToken` returns a new token each time. */
  isRenewable: boolean;
  /** Limits the token to a single pipeline. Default: all pipelines of the publisher. */
  pipeline?: string;
  /** Called after the first exchange. */
  onIssued?: (issued: IssuedToken) => void;
  clock: Pick<Clock, 'monotonic'>;
}

interface CurrentToken {
  value: string;
  /** When to renew the token, in milliseconds of the monotonic clock. */
  renewAt: number;
}

/**
 * Returns a token that the daemon issues in exchange for the ID tokens of a CI system. It is renewed when two
 * thirds of its lifetime are over.
 */
export function exchangedToken(options: IdTokenOptions): TokenSource {
  const { idToken, isRenewable, pipeline, onIssued, clock } = options;
  let current: CurrentToken | null = null;
  let running: Promise<CurrentToken> | null = null;
  let isNew = true;

  const renew = async (exchange: ExchangeForm): Promise<CurrentToken> => {
    const begunAt = clock.monotonic();
    const body = await exchange({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
      subject_token: await idToken(),
      ...(pipeline === undefined ? {} : { pipeline }),
    });
    const { value, seconds, issued } = parseIssuedToken(body);
    current = { value, renewAt: begunAt + (seconds * 1000 * 2) / 3 };
    if (isNew) onIssued?.(issued);
    isNew = false;
    return current;
  };

  return {
    isRenewable,
    value: async (exchange) => {
      if (current !== null && (!isRenewable || clock.monotonic() < current.renewAt)) return current.value;
      running ??= renew(exchange).finally(() => (running = null));
      return (await running).value;
    },
    refused: (value) => {
      if (!isRenewable) return false;
      if (current?.value === value) current = null;
      return true;
    },
  };
}

function parseIssuedToken(body: TokenAnswer): { value: string; seconds: number; issued: IssuedToken } {
  const { access_token: value, expires_in: seconds, publisher_id: publisherId, ...answer } = body;
  const { scope, subject } = answer;
  const pipelines = Array.isArray(answer.pipelines) ? answer.pipelines.map(String) : [];
  const issued = {
    publisherId,
    subject: typeof subject === 'string' ? subject : null,
    pipelines,
    scopes: typeof scope === 'string' ? scope.split(' ') : [],
  };
  return { value, seconds, issued };
}
