import type { Clock } from '../core/lib/clock.ts';
import { WaybillError } from '../core/lib/errors.ts';

/** Sends a form to the daemon's `POST v1/token` and returns the response body. */
export type ExchangeForm = (form: Readonly<Record<string, string>>) => Promise<unknown>;

/** A token whose value changes while the client runs. */
export interface TokenSource {
  /** Whether an expired value can be replaced with a new one. */
  readonly isRenewable: boolean;
  /** Returns the value for the next request. */
  value(exchange: ExchangeForm): Promise<string>;
  /** Called when the daemon has refused the value. Returns true if another one is available. */
  refused(value: string): boolean;
}

/** An issued token's rights, without its value. */
export interface IssuedToken {
  publisherId: string;
  /** The ID token's `sub` claim. */
  subject: string | null;
  pipelines: readonly string[];
  scopes: readonly string[];
}

export interface IdTokenOptions {
  /** Returns an ID token. Called for each exchange, because the daemon accepts each ID token only once. */
  idToken: () => Promise<string>;
  /** Whether each call of `idToken` returns a new token. */
  isRenewable: boolean;
  /** The only pipeline that the token is for. Default: all of the publisher's pipelines. */
  pipeline?: string;
  /** Called after the first exchange. */
  onIssued?: (issued: IssuedToken) => void;
  clock: Pick<Clock, 'monotonic'>;
}

interface Current {
  value: string;
  /** Monotonic, in milliseconds. */
  renewAt: number;
}

/**
 * Returns a token that the daemon issues in exchange for a CI system's ID tokens. It is renewed after two
 * thirds of its lifetime.
 */
export function exchangedToken(options: IdTokenOptions): TokenSource {
  const { idToken, isRenewable, pipeline, onIssued, clock } = options;
  let current: Current | null = null;
  let running: Promise<Current> | null = null;
  let isNew = true;

  const renew = async (exchange: ExchangeForm): Promise<Current> => {
    const begunAt = clock.monotonic();
    const body = await exchange({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
      subject_token: await idToken(),
      ...(pipeline === undefined ? {} : { pipeline }),
    });
    const { value, seconds, issued } = issuedIn(body);
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

function issuedIn(body: unknown): { value: string; seconds: number; issued: IssuedToken } {
  const answer = (body ?? {}) as Record<string, unknown>;
  const { access_token: value, expires_in: seconds, publisher_id: publisherId, scope, subject } = answer;
  if (typeof value !== 'string' || typeof seconds !== 'number' || typeof publisherId !== 'string')
    throw new WaybillError('unexpected_answer', 'the response to the token exchange is not from a daemon', {
      hint: 'check the URL: it must be the URL of the daemon, including its base path',
    });
  const pipelines = Array.isArray(answer['pipelines']) ? answer['pipelines'].map(String) : [];
  const issued = {
    publisherId,
    subject: typeof subject === 'string' ? subject : null,
    pipelines,
    scopes: typeof scope === 'string' ? scope.split(' ') : [],
  };
  return { value, seconds, issued };
}
